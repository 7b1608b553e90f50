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
  shown = new Row(kernel, "r1", {
    trans,
    openRun: vi.fn(),
    openCluster: vi.fn(),
    openDocument: vi.fn(),
    sparkUi,
  });
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
