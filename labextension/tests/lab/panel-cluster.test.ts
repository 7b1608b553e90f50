import { nullTranslator } from "@jupyterlab/translation";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { ClusterItem } from "../../src/lab/panel-cluster";
import type { ClusterRow } from "../../src/lab/protocol";
import { SETTLE } from "../../src/view/buttons";
import { clusterRow, FakeKernel } from "./panel-fakes";

const refused = vi.hoisted(() => vi.fn());
vi.mock("@jupyterlab/apputils", () => ({ Notification: { error: refused } }));

const trans = nullTranslator.load("tos_notebook");
const openCluster = vi.fn();
let kernel: FakeKernel;
let shown: ClusterItem;

function find(selector: string): HTMLElement {
  const found = shown.element.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`Expected ${selector}.`);
  return found;
}

function become(changes: Partial<ClusterRow>): void {
  kernel.tell([], null, [clusterRow(2, changes)]);
  shown.draw();
}

beforeEach(() => {
  vi.useFakeTimers();
  refused.mockClear();
  kernel = new FakeKernel();
  kernel.tell([], null, [clusterRow(2)]);
  const sparkUi = (url: string) => Promise.resolve(url);
  const others = { openRun: vi.fn(), openDocument: vi.fn(), compare: vi.fn() };
  const context = { trans, ...others, openCluster, sparkUi };
  shown = new ClusterItem(kernel, "c2", context);
  shown.draw();
});

afterEach(() => {
  vi.useRealTimers();
});

it("a cluster is told by its number, its state and its nodes, and leads to its cell", () => {
  expect(find(".tos-lab-open").textContent).toBe("Cluster 2");
  expect(find(".tos-lab-state").textContent).toBe("▶ running");
  expect(find(".tos-lab-numbers").textContent).toBe("2/3 nodes run");
  find(".tos-lab-open").click();
  expect(openCluster).toHaveBeenCalledWith(kernel, clusterRow(2));
});

it("it is stopped by the second click", () => {
  const stop = find('[data-tos="stop"]');
  stop.click();
  expect(stop.getAttribute("aria-label")).toBe("Click again to stop cluster 2");
  expect(find(".tos-lab-asks").textContent).toBe("Click again to stop cluster 2.");
  vi.advanceTimersByTime(SETTLE);
  stop.click();
  expect(kernel.stopCluster).toHaveBeenCalledExactlyOnceWith("c2");
});

it("a refusal is shown", async () => {
  kernel.stopCluster.mockResolvedValue({ ok: false, text: "no" });
  const stop = find('[data-tos="stop"]');
  stop.click();
  vi.advanceTimersByTime(SETTLE);
  stop.click();
  await vi.advanceTimersByTimeAsync(0);
  expect(refused).toHaveBeenCalledWith("no");
});

it("one that has failed says why, and cannot be stopped", () => {
  become({ state: "failed", active: false, running: 0, error: "ValueError: mine" });
  expect(find(".tos-lab-error").textContent).toBe("ValueError: mine");
  expect(find(".tos-lab-actions").hidden).toBe(true);
});

it("one whose kernel is gone is lost", () => {
  kernel.become("lost");
  shown.draw();
  expect(shown.element.dataset.state).toBe("lost");
});
