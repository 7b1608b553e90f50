import { beforeEach, describe, expect, it, vi } from "vitest";

import { FakeKernel } from "./kernel-fakes";
import { useFixture } from "./link-fixture";
import { row } from "./panel-fakes";
import { settle, until } from "./session-fakes";

const on = useFixture();

describe("a kernel that is met", () => {
  it("is asked on its control channel, and told of itself once it has tos_notebook", async () => {
    const { kernel, link } = on.it;
    await on.it.open();
    expect(kernel.of("comm_info_request")[0]).toMatchObject({
      ...{ channel: "control", content: { target_name: "tos.kernel" } },
    });
    expect(link.state).toBe("open");
    expect(link.overview.runs).toEqual([row(3)]);
  });

  it("is left in peace where it has not loaded tos_notebook", async () => {
    const { kernel, link } = on.it;
    kernel.loaded = false;
    await on.it.open();
    expect(link.state).toBe("absent");
    expect(kernel.sent.map(({ type }) => type)).toEqual([
      "kernel_info_request",
      "comm_info_request",
    ]);
  });

  it.each([
    ["speaks another language", () => Promise.resolve({ language: "R" })],
    ["is of no kind that the server knows", () => Promise.resolve(undefined)],
    ["is of a kind that the server does not tell", () => Promise.reject(new Error("Offline"))],
  ])("is told nothing if it %s", async (_, spec) => {
    const { kernel, link } = on.it;
    kernel.spec = spec();
    await on.it.open();
    await expect(link.expect()).rejects.toThrow();
    expect(kernel.sent).toEqual([]);
    expect(link.state).toBe("absent");
  });

  it("counts as one without tos_notebook if it does not answer in time", async () => {
    const { kernel } = on.it;
    kernel.silent = true;
    await on.it.open();
    const { refused } = on.it.view();
    await settle(9);
    expect(refused).not.toHaveBeenCalled();
    await settle(2);
    expect(refused).toHaveBeenCalledOnce();
  });

  it("is opened once, however many ask for it", async () => {
    const { context, kernel, link } = on.it;
    link.attach(context.real);
    const views = [on.it.view(), on.it.view()];
    await until(() => kernel.targets.size === 1);
    kernel.load();
    kernel.load();
    await settle();
    for (const { opened } of views) expect(opened).toHaveBeenCalledOnce();
    expect(kernel.of("comm_info_request")).toHaveLength(1);
    expect(kernel.opened).toEqual(["tos.control", "tos.stream"]);
  });

  it("is told at once what views want that were there before, and how often to speak", async () => {
    const { context, kernel, link } = on.it;
    await on.it.open();
    const { channel } = on.it.view();
    await settle();
    channel.hello();
    link.pace(5);
    kernel.sent.length = 0;
    context.reconnect();
    let state = link.state;
    await until(() => {
      // As it was before the last step: the kernel answers in the next one.
      const told = kernel.said("watch").length > 0;
      if (!told) state = link.state;
      return told;
    });
    expect(state).toBe("opening");
    const types = kernel.sent.filter((one) => one.channel === "shell").map(({ type }) => type);
    expect(types.slice(1)).toEqual(["comm_open", "comm_open", "comm_msg", "comm_msg"]);
    await settle();
    expect(link.state).toBe("open");
  });

  it("is opened when it loads tos_notebook", async () => {
    const { kernel, link } = on.it;
    kernel.loaded = false;
    await on.it.open();
    kernel.load();
    await settle();
    expect(link.state).toBe("open");
  });

  it("may come after the document: who waits for it is not refused", async () => {
    const { context, kernel } = on.it;
    context.session = null;
    await on.it.open();
    const { opened, refused } = on.it.view();
    await settle();
    context.change(null);
    context.change(kernel);
    await settle();
    expect(opened).toHaveBeenCalledOnce();
    expect(refused).not.toHaveBeenCalled();
  });

  it("is named after the document, also when that was renamed", async () => {
    const { context, link } = on.it;
    await on.it.open();
    expect([link.path, link.name]).toEqual(["work/first.ipynb", "first.ipynb"]);
    context.path = "work/second.ipynb";
    link.detach();
    expect(link.path).toBe("work/second.ipynb");
  });
});

describe("an open kernel", () => {
  beforeEach(() => on.it.open());

  it("tells of its runs; where a message was lost, the whole is asked for", async () => {
    const { kernel, link } = on.it;
    const changed = vi.fn();
    link.changed.connect(changed);
    kernel.tell(row(3, { epoch: 5 }));
    expect(link.overview.run("r3")?.epoch).toBe(5);
    expect(changed).toHaveBeenCalledOnce();
    expect(kernel.said("hello")).toEqual([]);
    kernel.lose();
    kernel.tell(row(4));
    expect(link.overview.run("r4")).toBeNull();
    expect(kernel.said("hello")).toHaveLength(1);
    await settle();
    expect(link.overview.runs.map(({ id }) => id)).toEqual(["r3", "r4"]);
  });

  it("answers commands and gives pictures", async () => {
    const { kernel, link } = on.it;
    const command = link.command("r3", "pause", { a: 1 });
    const [question] = kernel.said("command");
    expect(question).toMatchObject({ run: "r3", command: "pause", arguments: { a: 1 } });
    const picture = link.picture({ run: "r3" });
    const none = link.picture({ cluster: "c4" });
    const [first, second] = kernel.said("picture");
    expect([first.run, second.cluster]).toEqual(["r3", "c4"]);
    kernel.answer(second.id, { ok: false, text: "no such run" });
    kernel.answer(first.id, { ok: true, bundle: { "text/plain": "a run" } });
    kernel.answer(question.id, { ok: true, text: "soon" });
    expect(await command).toEqual({ ok: true, text: "soon" });
    expect(await picture).toEqual({ "text/plain": "a run" });
    expect(await none).toBeNull();
  });

  it("gives each view its own messages, until the view is closed", async () => {
    const { kernel } = on.it;
    const [one, two] = [on.it.view(), on.it.view()];
    await settle();
    one.channel.hello();
    two.channel.hello();
    const [first, second] = kernel.said("watch");
    expect(first).toMatchObject({ run: "r3", seconds: 0 });
    kernel.say({ type: "delta", view: first.view, state: {} });
    kernel.say({ type: "delta", view: "nobody's", state: {} });
    expect(one.listener.message).toHaveBeenCalledOnce();
    expect(two.listener.message).not.toHaveBeenCalled();
    two.channel.close();
    expect(kernel.said("unwatch")).toEqual([{ type: "unwatch", view: second.view }]);
    kernel.say({ type: "delta", view: second.view, state: {} });
    expect(two.listener.message).not.toHaveBeenCalled();
  });

  it("has the state that a view shows, as soon as the view has it", async () => {
    const { kernel, link } = on.it;
    const { channel } = on.it.view();
    await settle();
    channel.hello();
    const [{ view: name }] = kernel.said("watch");
    const changed = vi.fn();
    link.changed.connect(changed);
    const say = (state: string): void => {
      kernel.say({ type: "delta", view: name, state: { run: { state } } });
    };
    say("paused");
    say("paused");
    expect(link.overview.run("r3")?.state).toBe("paused");
    expect(changed).toHaveBeenCalledOnce();
    // How it has ended comes with all the rest.
    say("finished");
    expect(link.overview.run("r3")?.state).toBe("paused");
    kernel.tell(row(3, { state: "finished" }));
    say("running");
    expect(link.overview.run("r3")?.state).toBe("finished");
  });

  it("answers a view's commands by the view's numbers", async () => {
    const { kernel } = on.it;
    const { channel, listener } = on.it.view();
    await settle();
    channel.command(7, "stop", {});
    kernel.answer(kernel.said("command")[0].id, { ok: true, text: "soon" });
    await settle();
    expect(listener.answer).toHaveBeenCalledExactlyOnceWith(7, { ok: true, text: "soon" });
  });

  it("is told how often to speak, of itself and of each view", async () => {
    const { kernel, link } = on.it;
    link.pace(5);
    link.pace(5);
    expect(kernel.said("pace")).toEqual([{ type: "pace", seconds: 5 }]);
    const { channel } = on.it.view();
    channel.pace(0.5);
    await settle();
    channel.hello();
    channel.pace(2);
    channel.pace(2);
    const [{ view: name, seconds }] = kernel.said("watch");
    expect(seconds).toBe(0.5);
    expect(kernel.said("pace").slice(1)).toEqual([{ type: "pace", view: name, seconds: 2 }]);
  });

  it("that connects to another one first tells that how often to speak", async () => {
    const { context, kernel, link } = on.it;
    link.pace(5);
    const next = new FakeKernel();
    context.change(next);
    await settle();
    expect(link.state).toBe("open");
    expect(next.said("pace")).toEqual([{ type: "pace", seconds: 5 }]);
    expect(kernel.iopubMessage.count).toBe(0);
    on.it.kernel = next;
  });

  it("does not hear of a view that was closed before it was open", async () => {
    const { context, kernel, link } = on.it;
    link.detach();
    const { channel } = on.it.view();
    channel.close();
    await on.it.open();
    await settle();
    context.reconnect();
    await settle();
    expect(kernel.of("comm_msg")).toEqual([]);
  });

  it("is never asked for anything while nothing happens", async () => {
    const { kernel } = on.it;
    const { length } = kernel.sent;
    await settle(3600);
    expect(kernel.sent).toHaveLength(length);
  });
});
