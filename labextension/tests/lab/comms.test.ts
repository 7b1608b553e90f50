import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Comms } from "../../src/lab/comms";
import { hasSubshells } from "../../src/lab/subshell";
import { FakeKernel } from "./kernel-fakes";
import { settle } from "./session-fakes";

const REFUSED = ["Refused: tos.control", "Refused: tos.stream"];
const ears = { heard: vi.fn(), closed: vi.fn() };
let kernel: FakeKernel;
let comms: Comms;

async function open(): Promise<void> {
  comms = new Comms(kernel.real, "page", ears);
  await comms.open(hasSubshells(kernel.real));
  await settle();
}

beforeEach(() => {
  // Not the frames in which Lumino tidies up.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  vi.clearAllMocks();
  kernel = new FakeKernel();
});

afterEach(async () => {
  comms.dispose();
  await settle();
  expect(kernel.iopubMessage.count).toBe(0);
  expect(kernel.subshells.size).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
  expect(kernel.errors).toEqual([]);
  vi.useRealTimers();
});

describe("the way to the kernel", () => {
  it("leads to a subshell of our own", async () => {
    await open();
    comms.send({ type: "hello" });
    const control = kernel.sent.filter(({ channel }) => channel === "control");
    const shell = kernel.sent.filter(({ channel }) => channel === "shell");
    expect(control.map(({ type }) => type)).toEqual([
      "kernel_info_request",
      "create_subshell_request",
    ]);
    expect(shell.map(({ subshell }) => subshell)).toEqual(Array(3).fill("subshell 1"));
  });

  it("leads to the main shell of a kernel that has no subshells", async () => {
    kernel.hasSubshells = false;
    await open();
    comms.dispose();
    const types = kernel.sent.map(({ type, subshell }) => [type, subshell]);
    expect(types).toEqual([
      ["kernel_info_request", null],
      ["comm_open", null],
      ["comm_open", null],
      ["comm_close", null],
    ]);
  });

  it("leads to the main shell where nobody answers in time", async () => {
    kernel.silent = true;
    comms = new Comms(kernel.real, "page", ears);
    void comms.open(hasSubshells(kernel.real));
    await settle(9);
    expect(kernel.opened).toEqual([]);
    await settle(2);
    expect(kernel.of("comm_open").map(({ subshell }) => subshell)).toEqual([null, null]);
  });
});

describe("the comms", () => {
  it("are the control and the stream of one page, opened without waiting for answers", async () => {
    kernel.hold();
    await open();
    expect(kernel.opened).toEqual(["tos.control", "tos.stream"]);
    kernel.release();
    const pages = kernel.of("comm_open").map(({ content }) => content.data);
    expect(pages).toEqual([{ page: "page" }, { page: "page" }]);
    await settle();
    expect(ears.heard).toHaveBeenCalledOnce();
  });

  it("say nothing before they are open", async () => {
    comms = new Comms(kernel.real, "page", ears);
    const opening = comms.open(hasSubshells(kernel.real));
    comms.send({ type: "pace", seconds: 5 });
    expect(await comms.ask({ type: "picture" })).toMatchObject({ ok: false });
    expect(await opening).toBe(true);
    expect(kernel.of("comm_msg")).toEqual([]);
  });

  it("leave nothing behind when they are given up while they are opened", async () => {
    comms = new Comms(kernel.real, "page", ears);
    const opening = comms.open(hasSubshells(kernel.real));
    comms.dispose();
    expect(await opening).toBe(false);
    await settle();
    expect(kernel.of("comm_open")).toEqual([]);
    expect(kernel.of("delete_subshell_request")).toHaveLength(1);
  });

  it("are closed with their page, once", async () => {
    await open();
    comms.dispose();
    comms.dispose();
    await settle();
    expect(kernel.pages).toEqual([]);
    expect(kernel.of("comm_close")).toHaveLength(1);
    kernel.say({ type: "late" });
    expect(ears.heard).toHaveBeenCalledOnce();
    expect(ears.closed).not.toHaveBeenCalled();
  });

  it("say nothing to a kernel that has died", async () => {
    await open();
    kernel.status = "dead";
    comms.send({ type: "hello" });
    comms.dispose();
    kernel.subshells.clear();
    expect(kernel.said("hello")).toEqual([]);
  });

  it("tell when the kernel lets go of them, or never had them", async () => {
    await open();
    kernel.close();
    expect(ears.closed).toHaveBeenCalledTimes(2);
    comms.dispose();
    await settle();
    // What the kernel has closed is not closed again.
    expect(kernel.of("comm_close")).toEqual([]);
    kernel.loaded = false;
    await open();
    expect(ears.closed).toHaveBeenCalledTimes(4);
    expect(kernel.errors.splice(0)).toEqual(REFUSED);
  });
});

describe("a question", () => {
  it("gets its own answer, in whatever order they come", async () => {
    await open();
    const [first, second] = [comms.ask({ type: "command" }), comms.ask({ type: "picture" })];
    const [one] = kernel.said("command");
    const [two] = kernel.said("picture");
    expect(one.id).not.toBe(two.id);
    kernel.answer(two.id, { ok: true, text: "two" });
    kernel.answer("unknown", { ok: true, text: "nobody's" });
    kernel.answer(one.id, { ok: false, text: "one" });
    expect(await first).toMatchObject({ ok: false, text: "one" });
    expect(await second).toMatchObject({ ok: true, text: "two" });
  });

  it("that is open when the comms go is answered by us", async () => {
    await open();
    const answers = [comms.ask({ type: "command" }), comms.ask({ type: "picture" })];
    comms.dispose();
    for (const answer of answers) expect(await answer).toMatchObject({ ok: false });
  });
});

describe("what the kernel says by itself", () => {
  it("is heard with its buffers as views, whatever they are made of", async () => {
    await open();
    const bytes = new Uint8Array([1, 2, 3, 4]);
    kernel.say({ type: "delta" }, [bytes.buffer, bytes.subarray(1, 3)]);
    const views = ears.heard.mock.lastCall?.[1] as DataView[];
    expect(views.map((view) => [view.byteLength, view.getUint8(0)])).toEqual([
      [4, 1],
      [2, 2],
    ]);
  });

  it("is heard with a sign of life, every half minute at most", async () => {
    await open();
    comms.send({ type: "hello" });
    for (let second = 0; second < 100; second++) {
      await settle(1);
      kernel.say({ type: "delta" });
      const signs = kernel.said("here").length;
      expect(signs).toBeLessThanOrEqual(1 + Math.floor(second / 30));
    }
    expect(kernel.said("here").length).toBeGreaterThanOrEqual(3);
  });

  it("is nothing while nothing happens, and then we say nothing either", async () => {
    await open();
    const { length } = kernel.sent;
    await settle(3600);
    expect(kernel.sent).toHaveLength(length);
  });
});

it("a question that the kernel never answers has an end, which says what may be", async () => {
  await open();
  const answer = comms.ask({ type: "command" });
  await settle(119);
  expect(vi.getTimerCount()).toBe(1);
  await settle(2);
  const { ok, text } = await answer;
  expect(ok).toBe(false);
  expect(text).toContain("keeps it busy");
});
