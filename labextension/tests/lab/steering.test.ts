import type { JupyterFrontEnd } from "@jupyterlab/application";
import { InputDialog, Notification, showDialog } from "@jupyterlab/apputils";
import { beforeEach, describe, expect, it, vi } from "vitest";

import { actions } from "../../demo/kernel";
import { addCommands, COMMANDS } from "../../src/lab/commands";
import table from "../../src/lab/actions.json";
import { answered, FakeKernel, FakeKernels, Registry, row, trans } from "./documents";

vi.mock("@jupyterlab/apputils", () => ({
  InputDialog: { getNumber: vi.fn(), getItem: vi.fn() },
  Notification: { error: vi.fn() },
  Dialog: { cancelButton: (options: object) => options, warnButton: (options: object) => options },
  showDialog: vi.fn(),
}));
vi.mock("@jupyterlab/notebook", () => ({ NotebookActions: {} }));
vi.mock("../../src/lab/icon", () => ({ tosIcon: {} }));

const getNumber = vi.mocked(InputDialog.getNumber);
const getItem = vi.mocked(InputDialog.getItem);
const asked = vi.mocked(showDialog);
const complaint = vi.mocked(Notification.error);

const STEER = {
  pauseUnpause: "tos-notebook:pause-unpause",
  stop: "tos-notebook:stop",
  repartition: "tos-notebook:repartition",
  swapCombiner: "tos-notebook:swap-combiner",
  swapStrategy: "tos-notebook:swap-strategy",
} as const;

let commands: Registry;
let kernel: FakeKernel;
let kernels: FakeKernels;

function answers(accept: boolean): void {
  asked.mockResolvedValue({ button: { accept } } as Awaited<ReturnType<typeof showDialog>>);
}

function enabled(): string[] {
  return [...commands.all.keys()].filter((id) => commands.isEnabled(id));
}

beforeEach(() => {
  vi.clearAllMocks();
  commands = new Registry();
  kernel = new FakeKernel();
  kernels = new FakeKernels([kernel]);
  kernel.show(row());
  const app = { commands } as unknown as JupyterFrontEnd;
  const shows = { openPanel: vi.fn(), openRun: vi.fn(), steerRun: vi.fn() };
  addCommands(app, kernels.real, { palette: null, notebooks: null, trans, ...shows });
});

describe("steering", () => {
  const STEERING = Object.values(STEER) as string[];

  it("has a command with its title for each entry of the kernel's table, one for two of them", () => {
    kernel.show(row());
    const labels = (): string[] => STEERING.map((id) => commands.label(id));
    const titles = table.map(({ title }) => title);
    expect(labels()).toEqual(titles.filter((title) => title !== "Unpause Training"));
    kernel.show(row({ state: "paused" }));
    expect(labels()).toEqual(titles.filter((title) => title !== "Pause Training"));
  });

  it.each([
    ["running", "open", true],
    ["paused", "open", true],
    ["stopping", "open", false],
    ["finished", "open", false],
    ["failed", "open", false],
    ["running", "lost", false],
  ] as const)("a run that is %s, its kernel %s: %s", (state, link, possible) => {
    kernel.show(row({ state }));
    kernel.state = link;
    expect(enabled().filter((id) => STEERING.includes(id))).toEqual(possible ? STEERING : []);
  });

  it("offers what the run obeys", () => {
    const stop = actions.filter(({ name }) => name === "stop");
    kernel.show(row({ actions: stop }));
    expect(enabled().filter((id) => STEERING.includes(id))).toEqual([STEER.stop]);
  });

  it("needs a kernel in front, as nearly everything does", () => {
    kernels.current = null;
    expect(enabled()).toEqual([COMMANDS.openPanel]);
  });

  it("pauses, and unpauses what is paused", async () => {
    expect(commands.label(STEER.pauseUnpause)).toBe("Pause Training");
    await commands.execute(STEER.pauseUnpause);
    kernel.show(row({ state: "paused" }));
    expect(commands.label(STEER.pauseUnpause)).toBe("Unpause Training");
    await commands.execute(STEER.pauseUnpause);
    expect(kernel.command.mock.calls).toEqual([
      ["run-3", "pause", {}],
      ["run-3", "unpause", {}],
    ]);
  });

  it.each([true, false])("asks before it stops; the answer yes is %s", async (accept) => {
    answers(accept);
    await commands.execute(STEER.stop);
    expect(asked.mock.calls[0][0]).toMatchObject({ title: "Stop run 3?", defaultButton: 0 });
    expect(kernel.command.mock.calls).toEqual(accept ? [["run-3", "stop", {}]] : []);
  });

  it("repartitions into as many as are asked for", async () => {
    getNumber.mockReturnValue(answered(12));
    await commands.execute(STEER.repartition);
    expect(getNumber.mock.calls[0][0]).toMatchObject({
      title: "Run 3: Repartition",
      label: "Partitions, at the end of the epoch",
      value: 8,
    });
    expect(kernel.command).toHaveBeenCalledWith("run-3", "repartition", { partitions: 12 });
  });

  it.each([0, -1, 2.5, NaN])("does not repartition into %d", async (value) => {
    getNumber.mockReturnValue(answered(value));
    await commands.execute(STEER.repartition);
    expect(kernel.command).not.toHaveBeenCalled();
    expect(complaint).toHaveBeenCalledOnce();
  });

  it("swaps in one of the run's combiners, beginning at its own", async () => {
    kernel.show(row({ combiner: "mine" }));
    getItem.mockReturnValue(answered("easgd"));
    await commands.execute(STEER.swapCombiner);
    const { items, current } = getItem.mock.calls[0][0];
    expect([items.slice(0, 2), current]).toEqual([["mine", "downpour"], 0]);
    expect(kernel.command).toHaveBeenCalledWith("run-3", "swap combiner", { combiner: "easgd" });
  });

  it("swaps the strategy for a registered one, beginning at its own", async () => {
    kernel.show(row({ strategy: "allreduce (of gradients)" }));
    getItem.mockReturnValue(answered("ps"));
    await commands.execute(STEER.swapStrategy);
    const { items, current, label } = getItem.mock.calls[0][0];
    expect(items.slice(0, 2)).toEqual(["ps", "ps:shards=2"]);
    expect([current, label]).toEqual([4, "Strategy, at the end of the epoch"]);
    expect(kernel.command).toHaveBeenCalledWith("run-3", "swap strategy", { strategy: "ps" });
  });

  it("does nothing when a dialog is cancelled", async () => {
    getNumber.mockReturnValue(answered(null));
    getItem.mockReturnValue(answered(null));
    await commands.execute(STEER.repartition);
    await commands.execute(STEER.swapCombiner);
    expect(kernel.command).not.toHaveBeenCalled();
    expect(complaint).not.toHaveBeenCalled();
  });

  it("shows why it was refused, and nothing if it was not", async () => {
    answers(true);
    await commands.execute(STEER.stop);
    expect(complaint).not.toHaveBeenCalled();
    kernel.command.mockResolvedValue({ ok: false, text: "it has ended." });
    await commands.execute(STEER.stop);
    kernel.command.mockRejectedValue(new Error("the kernel is gone."));
    await commands.execute(STEER.stop);
    expect(complaint.mock.calls).toEqual([
      ["Run 3: it has ended."],
      ["Run 3: the kernel is gone."],
    ]);
  });
});
