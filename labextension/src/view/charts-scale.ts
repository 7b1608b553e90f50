/** Where a chart's axes begin and end, where their ticks are, and what stands at these. Pure. */

import { type Axis, type Curve, keyOf } from "./curves";
import { number, short } from "./format";
import { t } from "./text";

export type Range = [low: number, high: number];

const STEPS = [1, 2, 5, 10, 15, 30];
/** Seconds between two ticks of time. */
const TIMES = [
  ...[0.1, 0.2, 0.5],
  ...STEPS,
  ...STEPS.map((step) => 60 * step),
  ...[1, 2, 3, 6, 12, 24, 48, 96, 168].map((step) => 3600 * step),
];

/** Pixels from one label to the next, at least. */
const APART_X = 70;
const APART_Y = 34;

/** Shares of a curve's points between which a robust range lies. */
const [LEAST, MOST] = [0.01, 0.99];
/** Share of a robust range by which others may widen it at either end. */
const SLACK = 0.25;
/** Of a curve so many points are looked at: more would not move a percentile. */
const LOOKED_AT = 1000;

/** Round steps: 1, 2 or 5 times a power of ten; not less than `rough`. */
function roundStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((step) => step * power >= rough * (1 - 1e-9)) ?? 10);
}

function multiples(step: number, low: number, high: number): number[] {
  const ticks: number[] = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-9); n++) {
    // 3 * 0.1 is not 0.3.
    ticks.push(Number((n * step).toPrecision(12)));
    if (ticks.length > 50) break;
  }
  return ticks;
}

/** Ticks of x over so many pixels. */
export function xTicks(axis: Axis, low: number, high: number, pixels: number): number[] {
  const rough = ((high - low) * APART_X) / Math.max(pixels, 1);
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  if (axis !== "time" || rough < TIMES[0]) return multiples(roundStep(rough), low, high);
  const step = TIMES.find((each) => each >= rough) ?? 86_400 * Math.ceil(rough / 86_400);
  return multiples(step, low, high);
}

/** Ticks of y; of a logarithmic axis the powers of ten, and between few of these 2 and 5. */
export function yTicks(low: number, high: number, pixels: number, log: boolean): number[] {
  const most = Math.max(2, Math.floor(pixels / APART_Y));
  if (!log) {
    const rough = (high - low) / most;
    if (!(rough > 0) || !Number.isFinite(rough)) return [];
    const step = roundStep(rough);
    const ticks = multiples(step, low, high);
    // The next smaller step is its half, or 0.4 of it.
    return ticks.length < 2 ? multiples(roundStep(0.4 * step), low, high) : ticks;
  }
  const powers: number[] = [];
  for (let n = Math.floor(Math.log10(low)); n <= Math.log10(high); n++) powers.push(n);
  const ticks = (exponents: number[], digits: number[]): number[] =>
    exponents
      .flatMap((n) => digits.map((digit) => Number((digit * 10 ** n).toPrecision(12))))
      .filter((tick) => tick >= low && tick <= high);
  const fine = ticks(powers, [1, 2, 5]);
  if (fine.length < 2) return yTicks(low, high, pixels, false);
  if (fine.length <= most + 1) return fine;
  const every = Math.ceil(powers.length / most);
  return ticks(
    powers.filter((n) => n % every === 0),
    [1],
  );
}

/** 0:05, 1:30, 1:05:00; below a second 0.5 s. */
export function clock(seconds: number): string {
  const size = Math.abs(seconds);
  if (size % 1 > 1e-9 && size < 60) return t("%1 s", number(seconds));
  const whole = Math.round(size);
  const pad = (value: number): string => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const rest = `${hours > 0 ? pad(minutes) : minutes}:${pad(whole % 60)}`;
  return (seconds < 0 ? "−" : "") + (hours > 0 ? `${hours}:${rest}` : rest);
}

/** Times in one form: if one of them needs decimals, all have them. */
function clocks(times: readonly number[]): string[] {
  const decimals = Math.max(0, ...times.map((time) => (String(time).split(".")[1] ?? "").length));
  if (decimals === 0) return times.map(clock);
  if (times.every((time) => Math.abs(time) < 60)) {
    return times.map((time) => t("%1 s", time.toFixed(decimals)));
  }
  return times.map((time) => {
    const parts = (Math.abs(time) % 1).toFixed(decimals).slice(1);
    return clock(Math.trunc(time)) + parts;
  });
}

/** Places on the x axis, as labels. */
export function xLabels(axis: Axis, values: readonly number[]): string[] {
  if (axis === "time") return clocks(values);
  return values.map((value) => (axis === "samples" ? short(value) : number(value)));
}

/** A tick of the y axis in few letters, but with all of its digits: 0.05, 250, 10.05k, 4e8. */
export function yLabel(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential().replace("e+", "e");
  const text = (one: number): string =>
    one.toLocaleString("en-US", { maximumSignificantDigits: 12 });
  return size >= 1e4 ? `${text(value / 1e3)}k` : text(value);
}

/** The values that lie between two shares of all; puts these in order. */
function percentiles(values: number[], least: number, most: number): Range {
  values.sort((a, b) => a - b);
  const last = values.length - 1;
  // Of few values none is left out.
  return [values[Math.floor(least * (last + 1))], values[Math.ceil(most * (last + 1)) - 1]];
}

/** What of a curve is between two places, thinned out. */
function visible({ x, values }: Curve, [from, to]: Range, log: boolean): number[] {
  const found: number[] = [];
  for (let i = 0; i < x.length; i++) {
    const value = values[i];
    if (x[i] < from || x[i] > to || value === null || !Number.isFinite(value)) continue;
    if (!log || value > 0) found.push(value);
  }
  const stride = Math.ceil(found.length / LOOKED_AT);
  return stride <= 1 ? found : found.filter((_, i) => i % stride === 0);
}

/**
 * From where to where y goes: with all of the curves, or without the outermost hundredth of each,
 * so that one accident does not make everything else flat.
 */
export function yRange(
  drawn: readonly Curve[],
  between: Range,
  outliers: boolean,
  log: boolean,
): Range {
  // Where there is a raw line, the smoothed one lies within it.
  const raw = new Set(drawn.filter((curve) => curve.raw).map(keyOf));
  let [low, high] = [Infinity, -Infinity];
  let [least, most] = [Infinity, -Infinity];
  for (const curve of drawn) {
    if (!curve.raw && raw.has(keyOf(curve))) continue;
    const values = visible(curve, between, log);
    if (values.length === 0) continue;
    const [a, b] = percentiles(values, LEAST, MOST);
    [least, most] = [Math.min(least, a), Math.max(most, b)];
    [low, high] = [Math.min(low, values[0]), Math.max(high, values[values.length - 1])];
  }
  if (low > high) return log ? [0.1, 1] : [0, 1];
  if (!outliers && log) {
    const slack = (most / least) ** SLACK;
    [low, high] = [Math.max(low, least / slack), Math.min(high, most * slack)];
  } else if (!outliers) {
    const slack = SLACK * (most - least);
    [low, high] = [Math.max(low, least - slack), Math.min(high, most + slack)];
  }
  if (log) return [low / 1.1, high * 1.1];
  const pad = low === high ? Math.abs(low) / 2 || 0.5 : 0.05 * (high - low);
  // What is never negative has no room below 0.
  return [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
}
