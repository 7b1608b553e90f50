/** What a chart draws, as numbers: axes, smoothing, alignment, and the same in words. */

import { duration, number, short } from "./format";
import { AXIS_ROWS, MAX_POINTS, type Series } from "./model";
import { t } from "./text";
import { word } from "./words";

export type Axis = "time" | "samples" | "epoch";

export interface ChartOptions {
  axis: Axis;
  /** Weight of the past, 0 (none) to below 1. */
  smoothing: number;
  log: boolean;
  /** Points of one curve at most. */
  points: number;
}

/** What may be set for all views at once. */
export type ChartSettings = Pick<ChartOptions, "axis" | "points">;

export const DEFAULT_OPTIONS: ChartOptions = {
  ...{ axis: "time", smoothing: 0, log: false, points: MAX_POINTS },
};

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
  for (const { name, split, points } of series) {
    const places = points.column(AXIS_ROWS.indexOf(options.axis));
    const order = ascending(places);
    const x = merge(pick(places, order), options.points);
    const values = pick(points.column(VALUE), order);
    const add = (label: string, raw: boolean, all: ArrayLike<number>): void => {
      const shown = drawable(merge(all, options.points), options.log);
      drawn.push({ label, split, raw, x, values: shown });
    };
    const smoothed = options.smoothing > 0 && split === "training";
    if (smoothed) add(t("raw"), true, values);
    // The model that the user gets is the server's, which only validation measures.
    const copies = split === "training" && name !== "loss";
    const label = copies ? t("training, of the workers' copies") : word(split);
    add(label, false, smoothed ? smooth(values, options.smoothing) : values);
  }
  return drawn;
}

/**
 * At most `limit` values, means of neighbors. They are merged by powers of two, so that a mean
 * stays as it is while the curve grows. What is not finite does not count.
 */
export function merge(values: ArrayLike<number>, limit: number): ArrayLike<number> {
  const size = 2 ** Math.max(0, Math.ceil(Math.log2(values.length / Math.max(1, limit))));
  if (size === 1) return values;
  return Array.from({ length: Math.ceil(values.length / size) }, (_, i) => {
    let [total, n] = [0, 0];
    for (let at = i * size; at < Math.min(values.length, (i + 1) * size); at++) {
      if (!Number.isFinite(values[at])) continue;
      total += values[at];
      n += 1;
    }
    return total / n;
  });
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
  if (axis === "time") return Math.abs(value) < 10 ? t("%1 s", number(value)) : duration(value);
  return axis === "samples" ? short(value) : number(value);
}

/** What a person who does not see the chart should know of it. */
export function summary(name: string, series: readonly Series[]): string {
  const sentences = series
    .filter(({ points }) => points.length > 0)
    .map(({ split, points }) => {
      const values = points.column(VALUE).filter((value) => Number.isFinite(value));
      if (values.length === 0) return t("%1: no finite value.", word(split));
      const [least, most] = values.reduce(
        ([low, high], v) => [Math.min(low, v), Math.max(high, v)],
        [Infinity, -Infinity],
      );
      return t(
        "%1: began at %2, now %3, lowest %4, highest %5.",
        word(split),
        ...[values[0], values[values.length - 1], least, most].map(number),
      );
    });
  if (sentences.length === 0) return t("%1. No value yet.", name);
  return `${name}. ${sentences.join(" ")}`;
}
