import { beforeEach, describe, expect, it, vi } from "vitest";

import { toGo } from "../../src/lab/run-words";
import { StatusItem, statusText } from "../../src/lab/status-item";
import { FakeKernel, FakeKernels, row, trans } from "./documents";
import { clusterRow } from "./panel-fakes";

let kernel: FakeKernel;
let kernels: FakeKernels;
const jump = vi.fn();

function item(): { item: StatusItem; button: HTMLButtonElement } {
  const made = new StatusItem(kernels.real, trans, jump);
  const button = made.node.querySelector("button");
  if (!button) throw new Error("Expected a button.");
  return { item: made, button };
}

beforeEach(() => {
  jump.mockClear();
  kernel = new FakeKernel();
  kernels = new FakeKernels([kernel]);
});

describe("the text", () => {
  it.each([
    ["running", "run 3 4/10 · ~15 s · loss 0.31"],
    ["starting", "run 3 · starting · loss 0.31"],
    ["queued", "run 3 · queued · loss 0.31"],
    ["paused", "run 3 4/10 · paused · ~15 s · loss 0.31"],
    ["stopping", "run 3 4/10 · stopping · ~15 s · loss 0.31"],
    ["lost", "run 3 4/10 · lost · loss 0.31"],
  ])("of a run that is %s", (state, text) => {
    expect(statusText(row({ eta: 13 }), state, trans)).toBe(text);
  });

  it.each(["finished", "stopped", "failed"])("of a run that has %s", (state) => {
    expect(statusText(row({ eta: null }), state, trans)).toBe(`run 3 4/10 · ${state} · loss 0.31`);
  });

  it("has the run's name, and the latest evaluation in place of the loss", () => {
    const changes = { name: "first", epoch: 7, epochs: 12, eta: 41 };
    const validation = { accuracy: 0.879, loss: 0.4 };
    expect(statusText(row({ ...changes, validation }), "running", trans)).toBe(
      "first 7/12 · ~40 s · val 0.879",
    );
  });

  it("says what is wrong with a run that trains", () => {
    const warning = { kind: "overfitting", epoch: 2, factor: null } as const;
    expect(statusText(row({ warning }), "running", trans)).toContain("· overfits since epoch 2");
    expect(statusText(row({ warning }), "finished", trans)).not.toContain("overfits");
  });

  it("leaves out a loss that is not known", () => {
    expect(statusText(row({ loss: null, eta: null }), "failed", trans)).toBe("run 3 4/10 · failed");
  });

  it.each([
    [0.4, "~1 s"],
    [9.2, "~10 s"],
    [57, "~55 s"],
    [58, "~1 min"],
    [3569, "~59 min"],
    [3590, "~1 h 0 min"],
    [7800, "~2 h 10 min"],
    [null, ""],
  ])("rounds %s seconds to go to %s", (eta, text) => {
    expect(toGo({ eta }, trans)).toBe(text);
  });
});

describe("the item", () => {
  it("is there only while the kernel in front has a run", () => {
    const { item: made } = item();
    const changes = vi.fn();
    made.activeStateChanged.connect(changes);
    expect([made.isHidden, made.isActive()]).toEqual([true, false]);
    kernel.show(row());
    kernels.emit();
    kernels.emit();
    expect([made.isHidden, made.isActive()]).toEqual([false, true]);
    kernels.current = null;
    kernels.emit();
    expect([made.isHidden, made.isActive()]).toEqual([true, false]);
    expect(changes).toHaveBeenCalledTimes(2);
  });

  it("says what a click does, and does it", () => {
    kernel.show(row());
    const { button } = item();
    expect(button.getAttribute("aria-label")).toBe(
      `TensorOnSpark: ${button.textContent}. Go to the view of run 3`,
    );
    button.click();
    expect(jump).toHaveBeenCalledExactlyOnceWith(kernel, row());
    kernel.show(row({ cell: null }));
    kernels.emit();
    // The text may be cut where it is long.
    expect(button.title).toBe(`TensorOnSpark: ${button.textContent}. Open run 3`);
  });

  it("does not write what is there already", async () => {
    kernel.show(row());
    const { button } = item();
    const writes = vi.fn();
    const observer = new MutationObserver(writes);
    observer.observe(button, { attributes: true, childList: true, subtree: true });
    // What changes is not in the text.
    kernel.show(row({ elapsed: 101, samples: 500 }));
    kernels.emit();
    await Promise.resolve();
    expect(writes).not.toHaveBeenCalled();
    observer.disconnect();
  });

  it("bears the state, and what is wrong with a run that trains", () => {
    kernel.show(row());
    const { button } = item();
    expect(button.dataset.state).toBe("running");
    kernel.show(row({ warning: { kind: "diverging", epoch: null, factor: 20 } }));
    kernels.emit();
    expect(button.dataset.state).toBe("diverging");
    kernel.state = "lost";
    kernels.emit();
    expect(button.dataset.state).toBe("lost");
  });

  it("tells that an active run went with its kernel", () => {
    kernel.show(row());
    kernel.state = "lost";
    expect(item().button.textContent).toContain("lost");
  });
});

describe("a TensorFlow cluster", () => {
  it("is shown where no run is active, and leads to its cell", () => {
    const openCluster = vi.fn();
    const made = new StatusItem(kernels.real, trans, jump, openCluster);
    const button = made.node.querySelector("button");
    kernel.show(row({ state: "finished" }));
    kernel.showClusters(clusterRow(2));
    kernels.emit();
    expect(button?.textContent).toBe("cluster 2 · running · 2/3 nodes run");
    button?.click();
    expect(openCluster).toHaveBeenCalledWith(kernel, clusterRow(2));
    kernel.showClusters(clusterRow(2, { active: false, state: "stopped" }));
    kernels.emit();
    expect(button?.textContent).toContain("run 3 4/10 · finished");
  });

  it("is shown after its end where there is no run", () => {
    kernel.showClusters(clusterRow(2, { active: false, state: "stopped" }));
    const { button } = item();
    expect(button.textContent).toBe("cluster 2 · stopped");
  });
});
