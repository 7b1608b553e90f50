/** What is drawn on a chart's canvas besides its lines: bands, flags, what does not fit, the best. */

import type uPlot from "uplot";

import { heights, labels } from "./charts-labels";
import type { Flag, Overlay } from "./charts-marks";
import { type Curve, nearest } from "./curves";
import type { Theme } from "./theme";

/** Pixels between two signs of what does not fit that are drawn apart. */
const SIGN = 8;
/** Pixels of the height of a flag's letters. */
const LETTERS = 14;

/** What a chart shows now. */
export interface Picture {
  /** The best evaluation, as the kernel knows it: of a metric of which it knows what is good. */
  best: number | null;
  drawn: readonly Curve[];
  overlay: Overlay;
}

/** Draws in the page's own pixels, within the plot. */
function within(plot: uPlot, draw: (context: CanvasRenderingContext2D) => void): void {
  const { ctx: context, bbox } = plot;
  context.save();
  context.beginPath();
  context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  context.clip();
  draw(context);
  context.restore();
}

/** Behind the lines: when nothing was trained, or something went wrong on purpose. */
export function drawBands(plot: uPlot, { overlay }: Picture, theme: Theme): void {
  within(plot, (context) => {
    for (const { from, to, kind } of overlay.bands) {
      const [left, right] = [from, to].map((x) => plot.valToPos(x, "x", true));
      context.globalAlpha = kind === "pause" ? 0.16 : 0.1;
      context.fillStyle = kind === "pause" ? theme.wait : theme.alarm;
      context.fillRect(left, plot.bbox.top, Math.max(1, right - left), plot.bbox.height);
    }
  });
}

/** In front of the lines. */
export function drawMarks(plot: uPlot, picture: Picture, theme: Theme): void {
  const ratio = window.devicePixelRatio || 1;
  within(plot, (context) => {
    context.font = theme.font.replace(/^\d+/, (size) => String(Number(size) * ratio));
    context.lineWidth = ratio;
    drawFlags(plot, picture, theme, ratio);
    for (const curve of picture.drawn) {
      if (!curve.raw) drawClipped(plot, curve, colour(curve, theme), ratio);
      const { best } = picture;
      if (curve.split === "validation" && !curve.beside && best !== null) {
        drawBest(plot, curve, nearest(curve, best), theme, ratio);
      }
    }
  });
}

export function colour(curve: Pick<Curve, "split" | "raw" | "beside">, theme: Theme): string {
  const { split, raw, beside } = curve;
  if (beside) return theme.others[beside.place];
  if (split === "validation") return theme.validation;
  return raw ? theme.faint : theme.training;
}

/** A dashed line for each flag, and what they are called where there is room. */
function drawFlags(plot: uPlot, { overlay, drawn }: Picture, theme: Theme, ratio: number): void {
  const { ctx: context, bbox } = plot;
  const { flags } = overlay;
  const at = (flag: Flag): number => Math.round(plot.valToPos(flag.x, "x", true)) + 0.5;
  for (const flag of flags) {
    context.strokeStyle = tint(flag, theme);
    context.globalAlpha = 0.6;
    context.setLineDash([3 * ratio, 3 * ratio]);
    context.beginPath();
    context.moveTo(at(flag), bbox.top);
    context.lineTo(at(flag), bbox.top + bbox.height);
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
  drawLabels(plot, { overlay, drawn }, theme, ratio);
}

function drawLabels(
  plot: uPlot,
  { overlay, drawn }: Pick<Picture, "overlay" | "drawn">,
  theme: Theme,
  ratio: number,
): void {
  const { ctx: context, bbox } = plot;
  const at = (flag: Flag): number => Math.round(plot.valToPos(flag.x, "x", true)) + 0.5;
  context.textBaseline = "top";
  context.textAlign = "left";
  const placed = overlay.flags
    .map((flag) => ({ ...flag, x: at(flag) }))
    .filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width);
  const width = (text: string): number => context.measureText(text).width / ratio;
  const edges = { from: bbox.left / ratio, to: (bbox.left + bbox.width) / ratio };
  const pixels = placed.map((flag) => ({ ...flag, x: flag.x / ratio }));
  for (const { x, text, flag } of labels(pixels, edges, width)) {
    const [left, wide] = [x * ratio, (width(text) + 2) * ratio];
    const [above, below] = [bbox.top + ratio, bbox.top + bbox.height - (LETTERS + 1) * ratio];
    const crossed = (from: number): boolean =>
      drawn.some((curve) => crosses(plot, curve, [left, left + wide], from, LETTERS * ratio));
    const top = crossed(above) && !crossed(below) ? below : above;
    // No curve goes through what is to be read.
    context.fillStyle = theme.background;
    context.globalAlpha = 0.85;
    context.fillRect(left - ratio, top, wide, LETTERS * ratio);
    context.globalAlpha = 1;
    context.fillStyle = tint(flag, theme);
    context.fillText(text, left, top);
  }
}

/** Whether a curve goes through a box of the canvas. */
function crosses(
  plot: uPlot,
  curve: Curve,
  [left, right]: [number, number],
  top: number,
  height: number,
): boolean {
  const [from, to] = [left, right].map((at) => plot.posToVal(at, "x", true));
  const found = heights(curve, from, to);
  if (found === null) return false;
  const [low, high] = found.map((value) => plot.valToPos(value, "y", true));
  return high <= top + height && low >= top;
}

function tint({ sign }: Pick<Flag, "sign">, theme: Theme): string {
  return sign === "⚑" ? theme.text : theme.alarm;
}

/** Small triangles at the edge where a curve leaves the plot. */
function drawClipped(plot: uPlot, curve: Curve, fill: string, ratio: number): void {
  const { ctx: context, bbox, scales } = plot;
  const { min, max } = scales.y;
  if (min == null || max == null) return;
  context.fillStyle = fill;
  let last = -Infinity;
  curve.values.forEach((value, i) => {
    if (value === null || (value <= max && value >= min)) return;
    const x = plot.valToPos(curve.x[i], "x", true);
    if (x < last + SIGN * ratio || x < bbox.left || x > bbox.left + bbox.width) return;
    last = x;
    const above = value > max;
    const [tip, side] = above ? [bbox.top, 1] : [bbox.top + bbox.height, -1];
    context.beginPath();
    context.moveTo(x, tip);
    context.lineTo(x - 4 * ratio, tip + side * 6 * ratio);
    context.lineTo(x + 4 * ratio, tip + side * 6 * ratio);
    context.fill();
  });
}

function drawBest(plot: uPlot, curve: Curve, at: number, theme: Theme, ratio: number): void {
  const value = curve.values[at];
  // A single point is not the best of anything.
  if (at < 0 || value === null || curve.values.length < 2) return;
  const [x, y] = [plot.valToPos(curve.x[at], "x", true), plot.valToPos(value, "y", true)];
  const size = 5 * ratio;
  const { ctx: context } = plot;
  context.fillStyle = theme.validation;
  context.strokeStyle = theme.background;
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x + size, y);
  context.lineTo(x, y + size);
  context.lineTo(x - size, y);
  context.closePath();
  context.fill();
  context.stroke();
}
