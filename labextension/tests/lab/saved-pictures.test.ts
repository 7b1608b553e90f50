import { Signal } from "@lumino/signaling";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { LinkState } from "../../src/lab/kernels";
import { CLUSTER_MIME, RUN_MIME } from "../../src/lab/protocol";
import { FRESH, OLD, SavedPictures } from "../../src/lab/saved-pictures";
import { snapshotOf } from "../../src/lab/saved";
import type { Snapshot } from "../../src/view/model";
import { buffers, parts } from "../fakes";
import { CLUSTER, clusterRow, FakeKernel, row } from "./panel-fakes";
import { settle } from "./session-fakes";

const PICTURE = { "text/plain": "Run 3", "text/html": "<p>Run 3</p>" };

class Outputs {
  isDisposed = false;
  constructor(public all: { data: Record<string, unknown> }[]) {}

  get length(): number {
    return this.all.length;
  }
  get(index: number): { data: Record<string, unknown> } {
    return this.all[index];
  }
  set(index: number, output: { data: Record<string, unknown> }): void {
    this.all[index] = output;
  }
}

/** An output that shows a run as it trains. */
function live(run: string): { data: Record<string, unknown> } {
  return { data: { [RUN_MIME]: { run, number: 1 }, "text/plain": "training" } };
}

/** An output that shows a TensorFlow cluster as it runs. */
function liveCluster(cluster: string): { data: Record<string, unknown> } {
  return { data: { [CLUSTER_MIME]: { cluster }, "text/plain": "running" } };
}

const other = { data: { "text/plain": "4" } };

let kernel: FakeKernel;
let hub: {
  changed: Signal<unknown, undefined>;
  of: () => FakeKernel | null;
  shown: () => Snapshot | null;
};
let outputs: Outputs;
let give: (picture: typeof PICTURE | null) => void;
let saveState: Signal<unknown, string>;

/** What the page shows of a run now. */
function show(losses: number[], state = "running"): void {
  hub.shown = () => ({
    message: { type: "snapshot", seq: 4, state: parts(losses, { state }) },
    buffers: buffers(losses),
  });
}

function savedMilestones(index: number): number | undefined {
  const { saved } = outputs.all[index].data[RUN_MIME] as Record<string, unknown>;
  return snapshotOf(saved)?.message.state.totals.milestones;
}

/** The kernel changes, and whatever follows from that at once happens. */
async function change(): Promise<void> {
  hub.changed.emit(undefined);
  await settle(1);
}

beforeEach(() => {
  vi.useFakeTimers();
  kernel = new FakeKernel();
  kernel.tell([row(3, { state: "finished" }), row(4, { milestones: 0 })]);
  const picture = new Promise<typeof PICTURE | null>((resolve) => {
    give = resolve;
  });
  kernel.picture.mockImplementation(() => picture as Promise<never>);
  hub = { changed: new Signal({}), of: () => kernel, shown: () => null };
  outputs = new Outputs([other, live("r3"), live("r4"), live("r9")]);
  const cells = [{ type: "markdown" }, { type: "code", outputs }];
  saveState = new Signal({});
  const context = { saveState };
  const panel = { sessionContext: {}, model: { cells }, context };
  const panels = [panel, { sessionContext: {}, model: null, context }];
  const notebooks = { forEach: panels.forEach.bind(panels), widgetAdded: new Signal({}) };
  new SavedPictures(hub as never, notebooks as never);
});

afterEach(() => {
  vi.useRealTimers();
});

describe("a picture", () => {
  it("is put where a run was shown that has ended, and nowhere else", async () => {
    give(PICTURE);
    await change();
    expect(kernel.picture).toHaveBeenCalledExactlyOnceWith({ run: "r3" });
    const saved = { output_type: "display_data", data: PICTURE, metadata: {} };
    expect(outputs.all).toEqual([other, saved, live("r4"), live("r9")]);
    await change();
    expect(kernel.picture).toHaveBeenCalledOnce();
  });

  it("is asked for only after the kernel has had time to put it there itself", async () => {
    hub.changed.emit(undefined);
    await settle(0.9);
    hub.changed.emit(undefined);
    expect(kernel.picture).not.toHaveBeenCalled();
    outputs.all[1] = other;
    await settle(10);
    expect(kernel.picture).not.toHaveBeenCalled();
  });

  it.each<LinkState>(["absent", "opening", "lost", "closed"])(
    "is not asked for while the kernel is %s",
    async (state) => {
      kernel.state = state;
      await change();
      hub.of = () => null;
      await change();
      expect(kernel.picture).not.toHaveBeenCalled();
    },
  );

  it("is asked for once, however slow the kernel is", async () => {
    await change();
    await change();
    await change();
    expect(kernel.picture).toHaveBeenCalledOnce();
    give(PICTURE);
    await settle();
    expect(outputs.all[1].data).toBe(PICTURE);
    // What ends later gets its own.
    kernel.tell([row(4, { state: "failed" })]);
    await change();
    expect(kernel.picture).toHaveBeenLastCalledWith({ run: "r4" });
  });

  it.each([
    ["was run again", () => (outputs.all[1] = live("r4"))],
    ["shows something else", () => (outputs.all[1] = other)],
    ["was cleared", () => (outputs.all.length = 0)],
    ["is gone with its notebook", () => (outputs.isDisposed = true)],
  ])("is not put into a cell that %s meanwhile", async (_, happen) => {
    await change();
    happen();
    const before = [...outputs.all];
    give(PICTURE);
    await settle();
    expect(outputs.all).toEqual(before);
  });

  it("of a run that trains is put at once, and again now and then, beside what shows it live", async () => {
    kernel.tell([row(3, { milestones: 0 }), row(4, { milestones: 1 })]);
    const later = { ...PICTURE, "text/plain": "later" };
    give(PICTURE);
    await change();
    expect(kernel.picture).toHaveBeenCalledWith({ run: "r4" });
    expect(outputs.all[2].data).toEqual({ ...live("r4").data, ...PICTURE });
    kernel.picture.mockResolvedValue(later as never);
    await change();
    expect(outputs.all[2].data["text/plain"]).not.toBe("later");
    await settle(OLD / 1000);
    await change();
    expect(outputs.all[2].data["text/plain"]).toBe("later");
    kernel.tell([row(4, { state: "failed" })]);
    await change();
    expect(outputs.all[2].data).toEqual(later);
  });

  it("of each save is the kernel's last one, with what the page shows at that moment", async () => {
    kernel.tell([row(3, { milestones: 0 }), row(4, { milestones: 1 })]);
    for (const seen of [20, 273]) {
      kernel.picture.mockResolvedValue({ "text/plain": `epoch ${seen}` } as never);
      await change();
      await settle(FRESH / 1000);
      show(Array.from({ length: seen }, () => 1));
      saveState.emit("started");
      // Before anything else happens: JupyterLab reads the notebook right after.
      expect(outputs.all[2].data["text/plain"]).toBe(`epoch ${seen}`);
      expect(savedMilestones(2)).toBe(seen);
    }
    expect(outputs.all[0]).toBe(other);
    saveState.emit("completed");
    show([1]);
    expect(savedMilestones(2)).toBe(273);
  });

  it("of a save has what the page shows also while the kernel is too busy to answer", async () => {
    kernel.tell([row(4, { milestones: 1 })]);
    await change();
    show([3, 2, 1]);
    saveState.emit("started");
    expect(savedMilestones(2)).toBe(3);
    expect(outputs.all[2].data["text/plain"]).toBe("training");
  });

  it("of a run that has just ended is left to the kernel when the notebook is saved", async () => {
    kernel.tell([row(3, { milestones: 0 }), row(4, { milestones: 1 })]);
    await change();
    show([3, 2, 1], "finished");
    saveState.emit("started");
    expect(outputs.all[2]).toMatchObject(live("r4"));
    kernel.tell([row(4, { state: "finished" })]);
    give(PICTURE);
    await change();
    expect(outputs.all[2].data).toEqual(PICTURE);
  });

  it("takes a slow kernel no more than a third of its time", async () => {
    kernel.tell([row(3, { milestones: 0 }), row(4, { milestones: 1 })]);
    const slow = (): Promise<never> => new Promise((resolve) => setTimeout(resolve, 1000, PICTURE));
    kernel.picture.mockImplementation(slow);
    for (let second = 0; second < 12; second++) await change();
    expect(kernel.picture).toHaveBeenCalledTimes(4);
  });

  it("is put where a cluster was shown, once all its nodes have ended", async () => {
    const tell = (changes: object): void => {
      kernel.tell([], CLUSTER, [clusterRow(1, changes)]);
    };
    outputs.all = [other, liveCluster("c1"), liveCluster("c9")];
    give(PICTURE);
    tell({ state: "failed" });
    await change();
    expect(kernel.picture).not.toHaveBeenCalled();
    tell({ state: "failed", active: false });
    await change();
    expect(kernel.picture).toHaveBeenCalledExactlyOnceWith({ cluster: "c1" });
    const saved = { output_type: "display_data", data: PICTURE, metadata: {} };
    expect(outputs.all).toEqual([other, saved, liveCluster("c9")]);
  });

  it("of a run whose kernel is gone is what the page has shown of it", () => {
    const losses = Array.from({ length: 1000 }, (_, i) => 1 / (i + 1));
    hub.shown = () => ({
      message: { type: "snapshot", seq: 4, state: parts(losses, { state: "lost" }) },
      buffers: buffers(losses),
    });
    kernel.state = "lost";
    hub.changed.emit(undefined);
    const kept = outputs.all[2].data;
    expect(kept["text/plain"]).toBe("training");
    const { run, number, saved } = kept[RUN_MIME] as Record<string, unknown>;
    expect([run, number]).toEqual(["r4", 1]);
    const { state } = snapshotOf(saved)?.message ?? {};
    expect(state?.run.state).toBe("lost");
    expect(state?.totals.milestones).toBe(1000);
    expect(state?.series).toEqual([{ name: "loss", split: "training", length: 300 }]);
    const { points } = (saved as { series: { points: string[] }[] }).series[0];
    expect(points[3].split(",")[0]).toBe("1");
    expect(points[1].split(",").at(-1)).toBe("99900");
    hub.changed.emit(undefined);
    expect(outputs.all[2].data).toBe(kept);
  });

  it("that the kernel does not give leaves the output as it is", async () => {
    give(null);
    await change();
    expect(outputs.all[1]).toEqual(live("r3"));
  });
});
