import { describe, expect, it } from "vitest";

import { clock, xLabels, xTicks, yLabel, yRange, yTicks } from "../src/view/charts-scale";
import type { Curve } from "../src/view/curves";

function curve(values: (number | null)[], changes: Partial<Curve> = {}): Curve {
  const x = values.map((_, i) => i);
  return { label: "training", split: "training", raw: false, x, values, ...changes };
}

describe("ticks of time", () => {
  it.each([
    [4, 300, [0, 1, 2, 3, 4]],
    [50, 350, [0, 10, 20, 30, 40, 50]],
    [240, 350, [0, 60, 120, 180, 240]],
    [240, 700, [0, 30, 60, 90, 120, 150, 180, 210, 240]],
    [7200, 350, [0, 1800, 3600, 5400, 7200]],
    [0.4, 350, [0, 0.1, 0.2, 0.3, 0.4]],
  ])("are round over %d s in %d px", (high, pixels, expected) => {
    expect(xTicks("time", 0, high, pixels)).toEqual(expected);
  });

  it("read as a clock, none like its neighbor", () => {
    expect([0, 5, 90, 3900, 0.5].map(clock)).toEqual(["0:00", "0:05", "1:30", "1:05:00", "0.5 s"]);
    expect(xLabels("time", [60, 75])).toEqual(["1:00", "1:15"]);
    expect(xLabels("samples", [12_345])).toEqual(["12.3k"]);
    expect(xLabels("epoch", [1.5])).toEqual(["1.5"]);
  });

  it("have one form in one chart", () => {
    expect(xLabels("time", [7, 7.5, 8])).toEqual(["7.0 s", "7.5 s", "8.0 s"]);
    expect(xLabels("time", [59.5, 60, 60.5])).toEqual(["0:59.5", "1:00.0", "1:00.5"]);
  });

  it("leave a label its room, and end", () => {
    for (const high of [0.01, 1, 7, 63, 1000, 86_400, 1e7]) {
      const ticks = xTicks("time", 0, high, 400);
      expect(ticks.length).toBeLessThanOrEqual(1 + 400 / 70);
      expect(ticks.length).toBeGreaterThan(1);
    }
    expect(xTicks("time", 1, 1, 400)).toEqual([]);
    expect(xTicks("samples", 0, NaN, 400)).toEqual([]);
  });
});

describe("ticks of values", () => {
  it("are round", () => {
    expect(yTicks(0, 1.2, 150, false)).toEqual([0, 0.5, 1]);
    expect(yTicks(0, 0.32, 170, false)).toEqual([0, 0.1, 0.2, 0.3]);
  });

  it("are two at least: one alone says nothing of how far apart values are", () => {
    expect(yTicks(31.4, 94.2, 80, false)).toEqual([40, 60, 80]);
    expect(yTicks(0.21, 0.39, 80, false)).toEqual([0.25, 0.3, 0.35]);
  });

  it("of a logarithm are powers, and few of these have others between them", () => {
    expect(yTicks(0.04, 3, 200, true)).toEqual([0.05, 0.1, 0.2, 0.5, 1, 2]);
    expect(yTicks(1e-3, 1e8, 150, true)).toEqual([1e-3, 1, 1e3, 1e6]);
  });

  it("have few letters", () => {
    expect([4e8, 1.5e-5, 250, 0.05, 20_000, 0].map(yLabel)).toEqual([
      ...["4e8", "1.5e-5", "250", "0.05", "20k", "0"],
    ]);
  });

  it.each([
    [10_030, 10_070, ["10.03k", "10.04k", "10.05k", "10.06k", "10.07k"]],
    [1000.2, 1000.9, ["1,000.2", "1,000.4", "1,000.6", "1,000.8"]],
    [0.100001, 0.100003, ["0.100001", "0.1000015", "0.100002", "0.1000025", "0.100003"]],
    [1_200_000, 1_300_000, ["1.2e6", "1.22e6", "1.24e6", "1.26e6", "1.28e6", "1.3e6"]],
  ])("from %d to %d have all the digits that tell them apart", (low, high, expected) => {
    expect(yTicks(low, high, 180, false).map(yLabel)).toEqual(expected);
  });
});

describe("the range of y", () => {
  const accident = Array.from({ length: 400 }, (_, i) => (i === 200 ? 4e8 : 2 - i / 400));

  it("leaves an accident out, unless outliers are asked for", () => {
    const [, high] = yRange([curve(accident)], [0, 400], false, false);
    expect(high).toBeLessThan(2.5);
    expect(yRange([curve(accident)], [0, 400], true, false)[1]).toBeGreaterThan(4e8);
  });

  it("is that of what is visible", () => {
    const [low, high] = yRange([curve(accident)], [0, 100], false, false);
    expect(low).toBeGreaterThan(1.7);
    expect(high).toBeLessThan(2.1);
  });

  it("holds a raw line, within which the smoothed one lies", () => {
    const raw = curve([1, 3], { raw: true });
    expect(yRange([raw, curve([1, 2])], [0, 1], false, false)).toEqual([0.9, 3.1]);
  });

  it("leaves out none of few values, and is never empty", () => {
    expect(yRange([curve([1, null, 5])], [0, 2], false, false)).toEqual([0.8, 5.2]);
    expect(yRange([curve([2, 2])], [0, 2], false, false)).toEqual([1, 3]);
    expect(yRange([], [0, 1], false, true)).toEqual([0.1, 1]);
    expect(yRange([curve([null])], [0, 1], false, false)).toEqual([0, 1]);
  });
});
