/** What a chart draws, as numbers: axes, smoothing, alignment, and the same in words. */

import { number } from "./format";
import { AXIS_ROWS, MAX_POINTS, type Series, type Split } from "./model";
import { t } from "./text";
import { word } from "./words";

export type Axis = "time" | "samples" | "epoch";

export interface ChartOptions {
  axis: Axis;
  /** Weight of the past, 0 (none) to below 1. */
  smoothing: number;
  log: boolean;
  /** Whether y reaches all values, however far the outermost are. */
  outliers: boolean;
  /** Points of one curve at most. */
  points: number;
}

/** What may be set for all views at once. */
export type ChartSettings = Pick<ChartOptions, "axis" | "points">;

export const DEFAULT_OPTIONS: ChartOptions = {
  ...{ axis: "time", smoothing: 0.6, log: false, outliers: false, points: MAX_POINTS },
};

const VALUE = AXIS_ROWS.indexOf("value");

/** Another run, whose curves are drawn beside one's own. */
export interface Beside {
  readonly id: string;
  readonly name: string;
  /** Which of the colors of other runs it has. */
  readonly place: number;
}

/** One curve over its own x; `values` is null where a logarithm has no answer, and in a pause. */
export interface Curve {
  label: string;
  split: Split;
  /** Drawn faintly, behind the same smoothed. */
  raw: boolean;
  /** Not what was measured. */
  smoothed?: boolean;
  x: ArrayLike<number>;
  values: (number | null)[];
  /** Whose it is; one's own if left out. */
  beside?: Beside;
}

/** What switches a curve off: all of another run at once, of one's own each split. */
export function keyOf({ split, beside }: Pick<Curve, "split" | "beside">): string {
  return beside?.id ?? split;
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

/** A part of x in which there is nothing, such as a pause. */
interface Gap {
  from: number;
  to: number;
}

/** The curves of one quantity: with smoothing, training is drawn twice, raw and smoothed. */
export function curves(
  series: readonly Series[],
  options: ChartOptions,
  gaps: readonly Gap[] = [],
): Curve[] {
  const drawn: Curve[] = [];
  for (const { name, split, points } of series) {
    const places = points.column(AXIS_ROWS.indexOf(options.axis));
    const order = ascending(places);
    const x = merge(pick(places, order), options.points);
    const values = pick(points.column(VALUE), order);
    const smoothed = options.smoothing > 0 && split === "training";
    const add = (label: string, raw: boolean, all: ArrayLike<number>): void => {
      const shown = drawable(merge(all, options.points), options.log);
      drawn.push({ label, split, raw, smoothed: smoothed && !raw, ...parted(x, shown, gaps) });
    };
    if (smoothed) add(t("raw"), true, values);
    // The model that the user gets is the server's, which only validation measures.
    const copies = split === "training" && name !== "loss";
    const own = split === "work" ? name : word(split);
    const label = copies ? t("training, of the workers' copies") : own;
    add(label, false, smoothed ? smooth(values, options.smoothing) : values);
  }
  return drawn;
}

/** The same of another run, without what is faint. */
export function curvesBeside(
  beside: Beside,
  series: readonly Series[],
  options: ChartOptions,
  gaps: readonly Gap[] = [],
): Curve[] {
  return curves(series, options, gaps)
    .filter(({ raw }) => !raw)
    .map((curve) => ({ ...curve, beside, label: t("%1, %2", beside.name, curve.label) }));
}

/** Break a line where it would lead across a gap. */
function parted(
  x: ArrayLike<number>,
  values: (number | null)[],
  gaps: readonly Gap[],
): Pick<Curve, "x" | "values"> {
  if (gaps.length === 0) return { x, values };
  const [places, heights]: [number[], (number | null)[]] = [[], []];
  let next = 0;
  for (let i = 0; i < values.length; i++) {
    for (; next < gaps.length; next++) {
      const middle = (gaps[next].from + gaps[next].to) / 2;
      if (middle >= x[i]) break;
      // Before the first point there is no line.
      if (i === 0 || middle <= x[i - 1]) continue;
      places.push(middle);
      heights.push(null);
    }
    places.push(x[i]);
    heights.push(values[i]);
  }
  return { x: places, values: heights };
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

/** Where a curve is nearest to a value; -1 if it has none. */
export function nearest({ values }: Pick<Curve, "values">, value: number): number {
  let at = -1;
  let least = Infinity;
  values.forEach((one, i) => {
    const away = one === null ? Infinity : Math.abs(one - value);
    if (away < least) [at, least] = [i, away];
  });
  return at;
}

/** A curve's value at a place, or the last one before it; null before the first. */
export function valueAt({ x, values }: Pick<Curve, "x" | "values">, place: number): number | null {
  for (let i = values.length - 1; i >= 0; i--) {
    if (x[i] <= place && values[i] !== null) return values[i];
  }
  return null;
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
