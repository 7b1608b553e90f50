import { beforeEach, describe, expect, it, vi } from "vitest";

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
    ["running", "tos: run 3 · epoch 4/10 · 7/8 executors · loss 0.31"],
    ["starting", "tos: run 3 · starting · epoch 4/10 · loss 0.31"],
    ["paused", "tos: run 3 · paused · epoch 4/10 · loss 0.31"],
    ["stopping", "tos: run 3 · stopping · epoch 4/10 · loss 0.31"],
    ["finished", "tos: run 3 · finished · loss 0.31"],
    ["stopped", "tos: run 3 · stopped · loss 0.31"],
    ["failed", "tos: run 3 · failed · loss 0.31"],
    ["lost", "tos: run 3 · lost · epoch 4/10 · loss 0.31"],
  ])("of a run that is %s", (state, text) => {
    expect(statusText(row(), state, trans)).toBe(text);
  });

  it("has the latest evaluation before the loss of training", () => {
    const validation = { accuracy: 0.875, loss: 0.4 };
    expect(statusText(row({ validation }), "finished", trans)).toBe(
      "tos: run 3 · finished · validation accuracy 0.875 · validation loss 0.4 · loss 0.31",
    );
  });

  it("leaves out a loss that is not known", () => {
    expect(statusText(row({ loss: null }), "failed", trans)).toBe("tos: run 3 · failed");
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
      `${button.textContent}. Go to the cell that started run 3`,
    );
    button.click();
    expect(jump).toHaveBeenCalledExactlyOnceWith(kernel, row());
    kernel.show(row({ cell: null }));
    kernels.emit();
    // The text may be cut where it is long.
    expect(button.title).toBe(`${button.textContent}. Open run 3`);
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
    expect(button?.textContent).toBe("tos: cluster 2 · running · 2/3 nodes run");
    button?.click();
    expect(openCluster).toHaveBeenCalledWith(kernel, clusterRow(2));
    kernel.showClusters(clusterRow(2, { active: false, state: "stopped" }));
    kernels.emit();
    expect(button?.textContent).toContain("tos: run 3 · finished");
  });

  it("is shown after its end where there is no run", () => {
    kernel.showClusters(clusterRow(2, { active: false, state: "stopped" }));
    const { button } = item();
    expect(button.textContent).toBe("tos: cluster 2 · stopped");
  });
});
