import { expect, it } from "vitest";

import { RunModel, type Totals } from "../src/view/model";
import { readings, Theory } from "../src/view/theory";
import { buffers, parts } from "./fakes";

function totals(workers: number | null, staleness: number | null): Totals {
  return { ...parts().totals, recent_workers: workers, recent_staleness: staleness };
}

function drawn(...known: Parameters<typeof totals>): { theory: Theory; model: RunModel } {
  const model = new RunModel();
  const state = { ...parts(), totals: totals(...known) };
  model.apply({ type: "snapshot", seq: 1, state }, buffers([]));
  const theory = new Theory();
  theory.draw(model);
  return { theory, model };
}

function cells({ element }: Theory): string[][] {
  return [...element.querySelectorAll("tbody tr")].map((row) =>
    [...row.children].slice(0, 3).map((cell) => cell.textContent),
  );
}

/** The numbers are those of tests/test_theory.py. */
it("gauges are what tos_notebook.theory says", () => {
  const found = readings(totals(4, 1));
  const numbers = found.flatMap(({ predicted, measured }) => [predicted ?? NaN, measured ?? NaN]);
  [3, 1, 0.75, 0.5, 0.2225, 0.5].forEach((value, i) => {
    expect(numbers[i]).toBeCloseTo(value, 4);
  });
});

it("the staleness of late stands beside n - 1", () => {
  const { theory } = drawn(4, 1);
  expect(cells(theory)).toEqual([
    ["Mean staleness", "1.0", "3.0"],
    ["Implicit momentum", "0.50", "0.75"],
    ["Stable learning rate", "50 %", "22 %"],
  ]);
  expect(theory.element.textContent).toContain("n = 4 workers");
});

it("one worker alone is never stale and has its whole learning rate", () => {
  expect(cells(drawn(1, 0).theory).map((row) => row.slice(1))).toEqual([
    ["0.0", "0.0"],
    ["0.00", "0.00"],
    ["100 %", "100 %"],
  ]);
});

it("is not shown where nothing can be stale", () => {
  const { theory, model } = drawn(4, 1);
  expect(theory.element.hidden).toBe(false);
  model.run = { ...parts().run, lockstep: true };
  theory.draw(model);
  expect(theory.element.hidden).toBe(true);
});

it("before a milestone, and from an older kernel, nothing is known", () => {
  const { theory } = drawn(null, null);
  expect(cells(theory).flatMap((row) => row.slice(1))).toEqual(Array(6).fill("–"));
  expect(theory.element.textContent).toContain("before the first milestone");
  const older: Partial<Totals> = totals(2, 1);
  delete older.recent_workers;
  delete older.recent_staleness;
  expect(readings(older as Totals)).toEqual(readings(totals(null, null)));
});

it("is closed at first, and each gauge says its values and why", () => {
  const { theory } = drawn(4, 1);
  expect(theory.element.hasAttribute("open")).toBe(false);
  const meters = [...theory.element.querySelectorAll<HTMLElement>('[role="meter"]')];
  expect(meters.map((meter) => meter.getAttribute("aria-valuetext"))).toEqual([
    "1.0 measured, 3.0 predicted",
    "0.50 measured, 0.75 predicted",
    "50 % measured, 22 % predicted",
  ]);
  expect(meters.map((meter) => meter.getAttribute("aria-label"))).toContain("Implicit momentum");
  const places = meters.map(({ style }) =>
    ["measured", "predicted"].map((name) => style.getPropertyValue(`--tos-${name}`)),
  );
  expect(places).toEqual([
    ["17%", "50%"],
    ["50%", "75%"],
    ["50%", "22%"],
  ]);
  for (const why of theory.element.querySelectorAll(".tos-meaning")) {
    expect(why.textContent.length).toBeGreaterThan(40);
  }
});

it("a gauge beyond its scale ends where the scale does", () => {
  const meter = drawn(2, 50).theory.element.querySelector<HTMLElement>('[role="meter"]');
  expect(meter?.style.getPropertyValue("--tos-measured")).toBe("100%");
  expect(meter?.getAttribute("aria-valuenow")).toBe(meter?.getAttribute("aria-valuemax"));
});

it("writes nothing while nothing changes", async () => {
  const { theory, model } = drawn(4, 1);
  let writes = 0;
  const observer = new MutationObserver((records) => (writes += records.length));
  observer.observe(theory.element, {
    ...{ subtree: true, childList: true, attributes: true, characterData: true },
  });
  theory.draw(model);
  await Promise.resolve();
  expect(writes).toBe(0);
  model.totals = totals(4, 2);
  theory.draw(model);
  await Promise.resolve();
  expect(writes).toBeGreaterThan(0);
  observer.disconnect();
});
