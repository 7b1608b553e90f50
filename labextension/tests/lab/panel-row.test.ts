import { nullTranslator } from "@jupyterlab/translation";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { actions } from "../../demo/kernel";
import { Row } from "../../src/lab/panel-row";
import { ARMED, SETTLE } from "../../src/view/buttons";
import type { Answer } from "../../src/view/requests";
import { FakeKernel, row } from "./panel-fakes";

vi.mock("@jupyterlab/apputils", () => ({ Notification: {} }));

const trans = nullTranslator.load("tos_notebook");
const QUESTION = "Click again to stop run 1 and keep its weights";
const chosen = vi.fn();
let kernel: FakeKernel;
let shown: Row;
let stop: HTMLElement;

function find(selector: string): HTMLElement {
  const found = shown.element.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`Expected ${selector}.`);
  return found;
}

function become(state: string): void {
  kernel.tell([row(1, { state })]);
  shown.draw();
}

/** Press, and say yes. */
function stopTwice(): void {
  stop.click();
  vi.advanceTimersByTime(SETTLE);
  stop.click();
}

beforeEach(() => {
  vi.useFakeTimers();
  kernel = new FakeKernel();
  kernel.tell([row(1)]);
  const sparkUi = (url: string) => Promise.resolve(url);
  const open = { openRun: vi.fn(), openCluster: vi.fn(), openDocument: vi.fn() };
  shown = new Row(kernel, "r1", { trans, ...open, compare: vi.fn(), sparkUi }, chosen);
  shown.draw();
  stop = find('[data-tos="stop"]');
});

afterEach(() => {
  vi.useRealTimers();
});

it("a run is stopped by the second click, which is no double click", () => {
  const asks = find(".tos-lab-asks");
  stop.click();
  expect([stop.textContent, stop.getAttribute("aria-label")]).toEqual(["■?", QUESTION]);
  expect([asks.getAttribute("role"), asks.textContent]).toEqual(["status", `${QUESTION}.`]);
  vi.advanceTimersByTime(SETTLE - 1);
  stop.click();
  shown.draw();
  expect(kernel.command).not.toHaveBeenCalled();
  expect(stop.textContent).toBe("■?");
  vi.advanceTimersByTime(1);
  stop.click();
  expect(kernel.command).toHaveBeenCalledExactlyOnceWith("r1", "stop");
  expect([stop.textContent, asks.textContent]).toEqual(["■", ""]);
});

it.each([
  ["after a while", () => vi.advanceTimersByTime(ARMED)],
  ["at Escape", () => stop.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }))],
  [
    "when the run stops",
    () => {
      become("stopping");
    },
  ],
  [
    "when the run has ended",
    () => {
      become("finished");
    },
  ],
])("the question is withdrawn %s", (_, event) => {
  stop.click();
  expect(stop.dataset.armed).toBe("soon");
  event();
  expect("armed" in stop.dataset).toBe(false);
  expect(stop.textContent).toBe("■");
  expect(kernel.command).not.toHaveBeenCalled();
});

it("a key that is held down is one press", () => {
  const held = new KeyboardEvent("keydown", { key: "Enter", repeat: true, cancelable: true });
  expect(stop.dispatchEvent(held)).toBe(false);
});

it("a run is asked once while the kernel has not answered", async () => {
  let resolve: (answer: Answer) => void = () => undefined;
  kernel.command.mockReturnValueOnce(new Promise((done) => (resolve = done)));
  stopTwice();
  stopTwice();
  expect(kernel.command).toHaveBeenCalledOnce();
  resolve({ ok: true, text: "" });
  await vi.advanceTimersByTimeAsync(0);
  stopTwice();
  expect(kernel.command).toHaveBeenCalledTimes(2);
});

it("a run that obeys no pause has no button for it", () => {
  const only = actions.filter(({ name }) => name === "stop");
  kernel.tell([row(1, { actions: only })]);
  shown.draw();
  expect([find('[data-tos="pause"]').hidden, stop.hidden]).toEqual([true, false]);
});

it("a run of an older kernel, which does not say what it obeys, is drawn without buttons", () => {
  kernel.tell([row(1, { actions: undefined })]);
  shown.draw();
  expect([find('[data-tos="pause"]').hidden, stop.hidden]).toEqual([true, true]);
  expect(find(".tos-lab-open").textContent).toBe("Run 1");
});

it("a run is shown by its name, its place, its time to go and its worth", () => {
  const told = { name: "first", eta: 41, validation: { accuracy: 0.886 } };
  kernel.tell([row(1, told)]);
  shown.draw();
  const open = find(".tos-lab-open");
  expect([open.textContent, open.title]).toEqual(["first", "Run 1"]);
  expect(open.getAttribute("aria-label")).toBe("Open first");
  const texts = [...find(".tos-lab-numbers").children].map(({ textContent }) => textContent);
  const [place, ...rest] = ["epoch 4/10", "~40 s", "validation accuracy 0.886", "loss 0.31"];
  expect(texts).toEqual([place, ...rest, "12.3k samples/s"]);
  kernel.tell([row(1, { ...told, state: "finished", eta: null, elapsed: 68 })]);
  shown.draw();
  expect(find(".tos-lab-numbers").children[1].textContent).toBe("1 min 08 s");
});

it("an error has the place of the numbers, and a run that waits for its slots shows none", () => {
  kernel.tell([row(1, { state: "failed", error: "label 23 of 0 to 9" })]);
  shown.draw();
  expect(find(".tos-lab-numbers").textContent).toBe("");
  expect(find(".tos-lab-error").textContent).toBe("label 23 of 0 to 9");
  const waits = ['Waiting: run "first" holds both slots of local[2].'];
  kernel.tell([row(1, { state: "queued", milestones: 0, spark: [], waits })]);
  shown.draw();
  expect(find(".tos-lab-state").textContent).toBe("◔ queued");
  expect(find(".tos-lab-numbers").textContent).toBe("");
  expect(find(".tos-lab-error").textContent).toContain(waits[0]);
  expect(find(".tos-lab-sparkline").hasAttribute("hidden")).toBe(true);
  expect(stop.hidden).toBe(false);
});

it("what is wrong with how a run learns is said while it trains", () => {
  const warning = { kind: "diverging", epoch: null, factor: 30_000 } as const;
  kernel.tell([row(1, { warning })]);
  shown.draw();
  expect(find(".tos-lab-warning").textContent).toBe("⚠ diverges: loss 30,000 times its lowest");
  kernel.tell([row(1, { warning, state: "stopped" })]);
  shown.draw();
  expect(find(".tos-lab-warning").textContent).toBe("");
});

it("a run is chosen for a comparison once there is something to compare", () => {
  const choice = shown.element.querySelector("input");
  document.body.append(shown.element);
  kernel.tell([row(1, { milestones: 0 })]);
  shown.draw();
  expect(choice?.disabled).toBe(true);
  become("running");
  expect([choice?.disabled, choice?.getAttribute("aria-label")]).toEqual([false, "Compare run 1"]);
  choice?.click();
  choice?.click();
  expect(chosen.mock.calls).toEqual([[true], [false]]);
  shown.element.remove();
});

it("only a run that has ended can be removed", () => {
  const remove = find('[data-tos="remove"]');
  expect(remove.hidden).toBe(true);
  become("finished");
  expect([remove.hidden, remove.title]).toEqual([false, "Remove run 1 from this list"]);
  remove.click();
  expect(kernel.hide).toHaveBeenCalledExactlyOnceWith("r1");
});
