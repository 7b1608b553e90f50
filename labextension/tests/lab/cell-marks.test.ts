import { Signal } from "@lumino/signaling";
import { beforeEach, describe, expect, it, vi } from "vitest";

import { CellMarks, percent, revealCell } from "../../src/lab/cell-marks";
import type { Kernel } from "../../src/lab/kernels";
import { mark as markView } from "../../src/lab/run-views";
import { fakeCell, FakeKernel, FakeKernels, FakePanel, FakeTracker, row, trans } from "./documents";

const scheduled = vi.hoisted((): { signal: unknown } => ({ signal: null }));

vi.mock("@jupyterlab/notebook", () => ({
  NotebookActions: {
    get executionScheduled() {
      return scheduled.signal;
    },
  },
}));

let runs: Signal<object, { notebook: unknown; cell: unknown }>;
let kernel: FakeKernel;
let kernels: FakeKernels;
let panel: FakePanel;
let tracker: FakeTracker;

beforeEach(() => {
  runs = new Signal({});
  scheduled.signal = runs;
  kernel = new FakeKernel();
  kernels = new FakeKernels([kernel]);
  panel = new FakePanel("one.ipynb", [fakeCell("cell-0"), fakeCell("cell-1")]);
  tracker = new FakeTracker([panel]);
});

function mark(): CellMarks {
  return new CellMarks(kernels.real, tracker.real, trans);
}

/** State, percent (null without a bar) and word of a cell's mark; null without a mark. */
function marked(index = 1, on = panel): unknown {
  const { node } = on.content.widgets[index];
  const all = node.querySelectorAll(".tos-lab-mark");
  expect(all.length).toBeLessThanOrEqual(1);
  if (all.length === 0) {
    expect(node.hasAttribute("data-tos-state")).toBe(false);
    return null;
  }
  const bar = node.querySelector<HTMLElement>('[role="progressbar"]');
  const share = bar?.hidden === false ? bar.getAttribute("aria-valuenow") : null;
  return [node.dataset.tosState, share, all[0].textContent];
}

describe("a cell that started a run", () => {
  it("bears its state and progress, and no other cell does", () => {
    kernel.show(row());
    mark();
    expect(marked()).toEqual(["running", "42", "training"]);
    expect(marked(0)).toBeNull();
    const { node } = panel.content.widgets[1];
    expect(node.dataset.tosRun).toBe("run-3");
    expect(node.querySelector('[role="progressbar"]')?.getAttribute("aria-label")).toBe(
      "Progress of run 3",
    );
    // Lumino counts its own children from the first.
    expect(node.lastElementChild?.className).toBe("tos-lab-mark");
    kernel.show(row({ state: "paused", samples: 500 }));
    kernels.emit();
    expect(marked()).toEqual(["paused", "50", "paused"]);
  });

  it.each([
    ["finished", null],
    ["failed", ["failed", null, "failed"]],
    ["stopped", ["stopped", null, "stopped"]],
  ])("whose run has %s", (state, expected) => {
    kernel.show(row());
    mark();
    kernel.show(row({ state }));
    kernels.emit();
    expect(marked()).toEqual(expected);
  });

  it("shows the newest of its runs", () => {
    kernel.show(row({ number: 5, samples: 100 }), row({ number: 4, state: "failed" }));
    mark();
    expect(marked()).toEqual(["running", "10", "training"]);
    kernel.show(row({ number: 5, state: "finished" }), row({ number: 4, state: "failed" }));
    kernels.emit();
    expect(marked()).toBeNull();
  });

  it("says that an active run went with its kernel", () => {
    kernel.show(row());
    mark();
    kernel.state = "lost";
    kernels.emit();
    expect(marked()).toEqual(["lost", null, "lost"]);
  });

  it("loses the word of an ended run when it runs anew, but not that of one that trains", () => {
    kernel.show(row({ state: "failed" }));
    mark();
    const run = (): void => {
      runs.emit({ notebook: panel.content, cell: panel.content.widgets[1] });
    };
    run();
    expect(marked()).toBeNull();
    kernel.show(row({ state: "failed" }), row({ number: 4 }));
    kernels.emit();
    run();
    expect(marked()).toEqual(["running", "42", "training"]);
  });

  it("loses its mark when its kernel is gone", () => {
    kernel.show(row());
    mark();
    kernels.all.pop();
    kernels.emit();
    expect(marked()).toBeNull();
  });
});

describe("marks", () => {
  it("come back on a cell's new node, however long its run is over", () => {
    kernel.show(row({ state: "stopped" }));
    mark();
    panel.content.widgets[1] = fakeCell("cell-1");
    panel.content.cellsChanged.emit();
    expect(marked()).toEqual(["stopped", null, "stopped"]);
  });

  it("come on a notebook's cells once they are loaded", () => {
    kernel.show(row());
    const cells = panel.content.widgets.splice(0);
    mark();
    const changed = new Signal<FakePanel["content"], void>(panel.content);
    panel.content.model = { cells: { changed } };
    panel.content.modelChanged.emit();
    panel.content.widgets.push(...cells);
    changed.emit();
    expect(marked()).not.toBeNull();
  });

  it("come in every view of the notebook, and not in other notebooks", () => {
    kernel.show(row());
    mark();
    const [view, other] = ["one.ipynb", "two.ipynb"].map(
      (path) => new FakePanel(path, [fakeCell("cell-1")]),
    );
    for (const added of [view, other]) {
      tracker.panels.push(added);
      tracker.widgetAdded.emit(added);
    }
    expect(marked(0, view)).toEqual(["running", "42", "training"]);
    expect(marked(0, other)).toBeNull();
  });

  it("write nothing where nothing changed that they show", async () => {
    kernel.show(row());
    mark();
    const writes = vi.fn();
    const observer = new MutationObserver(writes);
    const all = { attributes: true, childList: true, subtree: true };
    observer.observe(panel.content.widgets[1].node, all);
    kernel.show(row({ elapsed: 101, samples: 421, loss: 0.3 }));
    kernels.emit();
    await Promise.resolve();
    expect(writes).not.toHaveBeenCalled();
    observer.disconnect();
  });
});

describe("progress", () => {
  it.each([
    [{ samples: 1100 }, 100],
    [{ samples_total: null }, 30],
    [{ samples_total: null, epoch: 10, state: "finished" }, 100],
    [{ samples_total: null, epoch: 0, epochs: 0 }, 0],
  ])("%j is %i percent", (changes, expected) => {
    expect(percent(row(changes))).toBe(expected);
  });
});

describe("the way back", () => {
  const reveal = (changes = {}): boolean =>
    revealCell(tracker.real, kernel as unknown as Kernel, row(changes));

  it("makes the cell active and scrolls to it", () => {
    expect(reveal()).toBe(true);
    expect(panel.content.activeCellIndex).toBe(1);
    expect(panel.content.mode).toBe("command");
    expect(panel.content.scrollToCell).toHaveBeenCalledWith(panel.content.widgets[1]);
  });

  it("ends at the run's view, where the cell shows one", async () => {
    const scrolled = ["run-1", "run-3"].map((run) => {
      const view = document.createElement("div");
      const scroll = vi.fn<HTMLElement["scrollIntoView"]>();
      view.scrollIntoView = scroll;
      markView(view, run);
      panel.content.widgets[1].node.append(view);
      return scroll;
    });
    reveal();
    await Promise.resolve();
    expect(scrolled[0]).not.toHaveBeenCalled();
    expect(scrolled[1]).toHaveBeenCalledWith({ block: "start" });
  });

  it("takes the view that is in front", () => {
    const view = new FakePanel("one.ipynb", [fakeCell("cell-1")]);
    tracker.panels.push(view);
    tracker.currentWidget = view;
    expect(reveal()).toBe(true);
    expect(view.content.scrollToCell).toHaveBeenCalled();
    expect(panel.content.scrollToCell).not.toHaveBeenCalled();
  });

  it("says that the cell or its notebook is gone", () => {
    expect(reveal({ cell: "other" })).toBe(false);
    expect(reveal({ cell: null })).toBe(false);
    tracker.panels.pop();
    tracker.currentWidget = null;
    expect(reveal()).toBe(false);
  });
});
