import { describe, expect, it } from "vitest";

import { pack } from "../demo/kernel";
import {
  align,
  nearest,
  curves,
  DEFAULT_OPTIONS,
  merge,
  smooth,
  summary,
  valueAt,
} from "../src/view/curves";
import { AXIS_ROWS, type Series, Table } from "../src/view/model";

function series(split: Series["split"], rows: number[][]): Series {
  const points = new Table(AXIS_ROWS, 4000);
  points.append(pack(rows, 4), rows.length);
  return { name: "loss", split, points };
}

const TRAINING = series("training", [
  [1, 10, 0.25, 4],
  [2, 20, 0.5, 0],
  [3, 30, 0.75, 2],
]);
const PLAIN = { ...DEFAULT_OPTIONS, smoothing: 0 };
const VALIDATION = series("validation", [[2.5, 20, 0.5, 3]]);

describe("smoothing", () => {
  it("of none changes nothing", () => {
    expect(smooth([3, 1, 2], 0)).toEqual([3, 1, 2]);
  });

  it("starts at the first value and follows", () => {
    const [first, second] = smooth([4, 0], 0.5);
    expect(first).toBe(4);
    expect(second).toBeCloseTo(4 / 3);
    expect(smooth([5, 5, 5], 0.9).map((value) => value.toFixed(6))).toEqual(
      Array(3).fill("5.000000"),
    );
  });

  it("steps over what is not finite", () => {
    expect(smooth([1, NaN, 1], 0.5)).toEqual([1, NaN, 1]);
  });

  it("draws training twice and validation as it is", () => {
    const drawn = curves([TRAINING, VALIDATION], { ...DEFAULT_OPTIONS, smoothing: 0.5 });
    expect(drawn.map(({ label }) => label)).toEqual(["raw", "training", "validation"]);
    expect(drawn[0].values).toEqual([4, 0, 2]);
  });
});

describe("axes", () => {
  it.each([
    ["time", [1, 2, 2.5, 3]],
    ["samples", [10, 20, 30]],
    ["epoch", [0.25, 0.5, 0.75]],
  ] as const)("%s aligns training and validation", (axis, expected) => {
    const drawn = curves([TRAINING, VALIDATION], { ...PLAIN, axis });
    const [x, training, validation] = align(drawn);
    expect(x).toEqual(expected);
    expect(training.filter((value) => value !== undefined)).toEqual([4, 0, 2]);
    expect(validation.filter((value) => value !== undefined)).toEqual([3]);
    expect(validation[x.indexOf(axis === "time" ? 2.5 : expected[1])]).toBe(3);
  });

  it("are put in order", () => {
    const mixed = series("training", [
      [3, 1, 0, 30],
      [1, 2, 0, 10],
    ]);
    expect(align(curves([mixed], PLAIN))).toEqual([
      [1, 3],
      [10, 30],
    ]);
  });

  it("on a log scale leave out what has no logarithm", () => {
    const [{ values }] = curves([TRAINING], { ...PLAIN, log: true });
    expect(values).toEqual([4, null, 2]);
  });
});

describe("a curve", () => {
  it("has a gap where nothing was trained, and only there", () => {
    const [{ x, values }] = curves([TRAINING], PLAIN, [
      { from: 0.2, to: 0.6 },
      { from: 2.1, to: 2.9 },
    ]);
    expect(x).toEqual([1, 2, 2.5, 3]);
    expect(values).toEqual([4, 0, null, 2]);
  });

  it("tells its value at the cursor, or the last one before it", () => {
    const [curve] = curves([TRAINING], PLAIN, [{ from: 2.1, to: 2.9 }]);
    expect([0.5, 1, 1.9, 2.6, Infinity].map((x) => valueAt(curve, x))).toEqual([null, 4, 4, 0, 2]);
  });

  it("is best where it is nearest to what the kernel knows as the best", () => {
    expect(nearest({ values: [3, null, 1, 2] }, 1.01)).toBe(2);
    expect(nearest({ values: [0.5, 0.9, 0.7] }, 0.9)).toBe(1);
    expect(nearest({ values: [null] }, 1)).toBe(-1);
  });
});

describe("too many points", () => {
  const merged = (values: number[], limit: number): number[] => Array.from(merge(values, limit));

  it("are merged with their neighbors until the limit is met", () => {
    expect(merged([1, 2, 3, 4], 4)).toEqual([1, 2, 3, 4]);
    expect(merged([1, 2, 3, 4, 9], 4)).toEqual([1.5, 3.5, 9]);
    expect(merged([], 4)).toEqual([]);
    for (const n of [9, 99, 1000]) {
      const length = merge(new Float32Array(n), 8).length;
      expect(length).toBeLessThanOrEqual(8);
      expect(length).toBeGreaterThan(4);
    }
  });

  it("stay where they are while others come", () => {
    const values = Array.from({ length: 64 }, (_, i) => i);
    const early = merged(values.slice(0, 36), 10);
    expect(merged(values.slice(0, 40), 10).slice(0, 9)).toEqual(early.slice(0, 9));
  });

  it("count only where they are finite", () => {
    expect(merged([1, NaN, NaN, NaN, 3], 3)).toEqual([1, NaN, 3]);
  });

  it("are smoothed before they are merged", () => {
    const options = { ...DEFAULT_OPTIONS, smoothing: 0.5, points: 2 };
    const [raw, smoothed] = curves([TRAINING], options);
    expect(raw).toMatchObject({ x: [1.5, 3], values: [2, 2] });
    const [first, second, third] = smooth([4, 0, 2], 0.5);
    expect(smoothed).toMatchObject({ x: [1.5, 3], values: [(first + second) / 2, third] });
  });
});

describe("the summary", () => {
  it("says what the chart shows", () => {
    expect(summary("loss", [TRAINING, VALIDATION])).toBe(
      "loss. training: began at 4, now 2, lowest 0, highest 4. " +
        "validation: began at 3, now 3, lowest 3, highest 3.",
    );
  });

  it("also of nothing", () => {
    expect(summary("loss", [series("training", [])])).toBe("loss. No value yet.");
    expect(summary("loss", [series("training", [[1, 1, 1, NaN]])])).toContain("no finite value");
  });
});
