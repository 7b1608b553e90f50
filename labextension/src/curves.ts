/** What a chart draws, as numbers: axes, smoothing, alignment, and the same in words. */

import { AXIS_ROWS, type Series } from "./model";
import { duration, number, short } from "./format";

export type Axis = "time" | "samples" | "epoch";

export interface ChartOptions {
  axis: Axis;
  /** Weight of the past, 0 (none) to below 1. */
  smoothing: number;
  log: boolean;
}

export const DEFAULT_OPTIONS: ChartOptions = { axis: "time", smoothing: 0, log: false };

const VALUE = AXIS_ROWS.indexOf("value");

/** One curve over its own x; `values` is null where a logarithm has no answer. */
export interface Curve {
  label: string;
  split: "training" | "validation";
  raw: boolean;
  x: ArrayLike<number>;
  values: (number | null)[];
}

/** Exponential moving average, corrected for its start: the first value is the first value. */
export function smooth(values: ArrayLike<number>, weight: number): number[] {
  const smoothed: number[] = [];
  let average = 0;
  let total = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (Number.isFinite(value)) {
      average = weight * average + (1 - weight) * value;
      total = weight * total + (1 - weight);
      smoothed.push(average / total);
    } else {
      smoothed.push(NaN);
    }
  }
  return smoothed;
}

/** The curves of one quantity: with smoothing, training is drawn twice, raw and smoothed. */
export function curves(series: readonly Series[], options: ChartOptions): Curve[] {
  const drawn: Curve[] = [];
  for (const { split, points } of series) {
    const order = ascending(points.column(AXIS_ROWS.indexOf(options.axis)));
    const values = pick(points.column(VALUE), order);
    const base = { split, x: pick(points.column(AXIS_ROWS.indexOf(options.axis)), order) };
    const smoothed = options.smoothing > 0 && split === "training";
    if (smoothed) {
      const averages = smooth(values, options.smoothing);
      drawn.push({ ...base, label: "raw", raw: true, values: drawable(values, options.log) });
      drawn.push({ ...base, label: split, raw: false, values: drawable(averages, options.log) });
    } else {
      drawn.push({ ...base, label: split, raw: false, values: drawable(values, options.log) });
    }
  }
  return drawn;
}

/** null if already in order, as almost always. */
function ascending(x: Float32Array): number[] | null {
  if (x.every((value, i) => i === 0 || x[i - 1] <= value)) return null;
  return Array.from(x, (_, i) => i).sort((a, b) => x[a] - x[b]);
}

function pick(values: Float32Array, order: number[] | null): ArrayLike<number> {
  return order === null ? values : order.map((i) => values[i]);
}

function drawable(values: ArrayLike<number>, log: boolean): (number | null)[] {
  return Array.from(values, (v) => (Number.isFinite(v) && (!log || v > 0) ? v : null));
}

/** One ascending x for all, with gaps (undefined) where a curve has no point of its own. */
export function align(drawn: readonly Curve[]): (number | null | undefined)[][] {
  const x: number[] = [];
  const columns: (number | null | undefined)[][] = drawn.map(() => []);
  const next = drawn.map(() => 0);
  for (;;) {
    let least = Infinity;
    drawn.forEach((curve, i) => {
      if (next[i] < curve.x.length) least = Math.min(least, curve.x[next[i]]);
    });
    if (least === Infinity) return [x, ...columns];
    x.push(least);
    drawn.forEach((curve, i) => {
      const here = next[i] < curve.x.length && curve.x[next[i]] === least;
      columns[i].push(here ? curve.values[next[i]] : undefined);
      if (here) next[i] += 1;
    });
  }
}

export function axisValue(axis: Axis, value: number): string {
  // Ticks of a quarter of a second would round to the same.
  if (axis === "time") return Math.abs(value) < 10 ? `${number(value)} s` : duration(value);
  return axis === "samples" ? short(value) : number(value);
}

/** What a person who does not see the chart should know of it. */
export function summary(name: string, series: readonly Series[]): string {
  const sentences = series
    .filter(({ points }) => points.length > 0)
    .map(({ split, points }) => {
      const values = points.column(VALUE).filter((value) => Number.isFinite(value));
      if (values.length === 0) return `${split}: no finite value.`;
      const [least, most] = values.reduce(
        ([low, high], v) => [Math.min(low, v), Math.max(high, v)],
        [Infinity, -Infinity],
      );
      return (
        `${split}: began at ${number(values[0])}, now ${number(values[values.length - 1])}, ` +
        `lowest ${number(least)}, highest ${number(most)}.`
      );
    });
  return `${name}. ${sentences.length > 0 ? sentences.join(" ") : "No value yet."}`;
}
