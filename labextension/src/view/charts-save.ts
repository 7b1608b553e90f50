/** A chart as a file: CSV and SVG of what is on view, PNG as it is on the screen. */

import { colour } from "./charts-draw";
import type { Overlay } from "./charts-marks";
import { type Range, xLabels, xTicks, yLabel, yTicks } from "./charts-scale";
import { type Axis, type Curve, keyOf } from "./curves";
import { shortened } from "./format";
import { t } from "./text";
import type { Theme } from "./theme";
import { word } from "./words";

/** A chart in numbers. */
export interface Sheet {
  name: string;
  /** See `Picture`. */
  best: number | null;
  axis: Axis;
  log: boolean;
  drawn: readonly Curve[];
  overlay: Overlay;
  x: Range;
  y: Range;
}

const [WIDTH, HEIGHT] = [820, 320];
const [LEFT, RIGHT, TOP, BOTTOM] = [60, 16, 34, 30];
/** Of a legend: a line and the space behind it, between entries, from row to row. */
const [SAMPLE, GAP, ROW] = [28, 16, 15];

/** One row a point: curve, place, value. */
export function csv({ name, axis, drawn }: Sheet): string {
  const cell = (text: string): string =>
    /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  const lines = [["curve", axis === "time" ? "seconds" : axis, name].map(cell).join(",")];
  for (const { label, smoothed, x, values } of drawn) {
    const curve = cell(smoothed ? t("%1, smoothed", label) : label);
    values.forEach((value, i) => {
      if (value !== null) lines.push([curve, String(x[i]), String(value)].join(","));
    });
  }
  return `${lines.join("\n")}\n`;
}

function escaped(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (sign) => names[sign]);
}

/** Vectors, for papers: black on white, whatever the page's colors. */
export function svg(sheet: Sheet): string {
  const { name, axis, log, drawn, overlay } = sheet;
  const [x, y] = scales(sheet);
  const base = HEIGHT - BOTTOM;
  const ticks = xTicks(axis, ...sheet.x, WIDTH - LEFT - RIGHT);
  const tickLabels = xLabels(axis, ticks);
  const parts = [
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    `<clipPath id="plot"><rect x="${LEFT}" y="${TOP}" width="${WIDTH - LEFT - RIGHT}" ` +
      `height="${base - TOP}"/></clipPath>`,
    `<text x="${LEFT}" y="14" font-weight="bold">${escaped(name)}</text>`,
    ...overlay.bands.map(({ from, to, kind }) => {
      const color = kind === "pause" ? "#6e7781" : "#b3261e";
      const width = Math.max(1, x(to) - x(from));
      const place = `x="${x(from)}" y="${TOP}" width="${width}" height="${base - TOP}"`;
      return `<rect ${place} fill="${color}" fill-opacity="0.15" clip-path="url(#plot)"/>`;
    }),
    ...yTicks(...sheet.y, base - TOP, log).map(
      (tick) =>
        `<path d="M${LEFT} ${y(tick)}H${WIDTH - RIGHT}" stroke="#ddd"/>` +
        `<text x="${LEFT - 6}" y="${y(tick) + 4}" text-anchor="end">${yLabel(tick)}</text>`,
    ),
    ...ticks.map(
      (tick, i) =>
        `<text x="${x(tick)}" y="${base + 16}" text-anchor="middle">${tickLabels[i]}</text>`,
    ),
    `<text x="${WIDTH - RIGHT}" y="${HEIGHT - 2}" text-anchor="end">${escaped(word(axis))}</text>`,
    ...drawn.map((curve) => line(curve, x, y)),
    ...legend(sheet, [LEFT, WIDTH - RIGHT], (text) => 6 * text.length).map(
      ({ curve, label, left, row }) =>
        `<path d="M${left} ${10 + ROW * row}h22" ${stroke(curve)} stroke-width="2"/>` +
        `<text x="${left + SAMPLE}" y="${14 + ROW * row}">${escaped(label)}</text>`,
    ),
    ...overlay.flags
      .filter(within(sheet.x))
      .map(
        ({ x: at, sign, label }) =>
          `<path d="M${x(at)} ${TOP}V${base}" stroke="#57606a" stroke-dasharray="3 3"/>` +
          `<text x="${x(at) + 3}" y="${TOP + 10}">${sign} ${escaped(label)}</text>`,
      ),
  ];
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" ` +
    `viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="11">\n` +
    `${parts.join("\n")}\n</svg>\n`
  );
}

function within([low, high]: Range): (flag: { x: number }) => boolean {
  return ({ x }) => x >= low && x <= high;
}

type Scale = (value: number) => number;

function scales({ x, y, log }: Sheet): [Scale, Scale] {
  const of = ([low, high]: Range, from: number, to: number, map: Scale): Scale => {
    const size = map(high) - map(low) || 1;
    return (value) => Number((from + ((map(value) - map(low)) / size) * (to - from)).toFixed(1));
  };
  const map: Scale = log ? Math.log10 : (value) => value;
  return [of(x, LEFT, WIDTH - RIGHT, (value) => value), of(y, HEIGHT - BOTTOM, TOP, map)];
}

const OTHERS = ["#7b6a2e", "#7a4f9a", "#2f7a5b", "#8a4a5e"];

function stroke({ split, raw, beside }: Pick<Curve, "split" | "raw" | "beside">): string {
  const dash = split === "validation" ? ' stroke-dasharray="6 4"' : "";
  if (beside) return `stroke="${OTHERS[beside.place]}"${dash}`;
  if (raw) return 'stroke="#a9cbe8"';
  return split === "validation" ? 'stroke="#b8430b" stroke-dasharray="6 4"' : 'stroke="#1f6fb4"';
}

function line(curve: Curve, x: Scale, y: Scale): string {
  let pen = "M";
  const path = curve.values.map((value, i) => {
    const step = value === null ? "" : `${pen}${x(curve.x[i])} ${y(value)}`;
    pen = value === null ? "M" : "L";
    return step;
  });
  const width = curve.raw || curve.beside ? 1 : 2;
  const look = `fill="none" ${stroke(curve)} stroke-width="${width}" clip-path="url(#plot)"`;
  return `<path d="${path.join("")}" ${look}/>`;
}

interface Entry {
  curve: Curve;
  label: string;
  left: number;
  row: number;
}

/** What is named behind a chart's name, and where: one's own curves, then each other run once. */
function legend(
  { name, drawn }: Sheet,
  [left, right]: Range,
  widthOf: (text: string) => number,
): Entry[] {
  const named = new Map<string, Curve>();
  for (const curve of drawn.filter(({ raw }) => !raw)) {
    if (!named.has(keyOf(curve))) named.set(keyOf(curve), curve);
  }
  let [next, row] = [left + 1.2 * widthOf(name) + GAP, 0];
  return [...named.values()]
    .sort((a, b) => Number(!!a.beside) - Number(!!b.beside))
    .map((curve) => {
      const label = curve.beside ? shortened(curve.beside.name, 24) : curve.label;
      const width = SAMPLE + widthOf(label);
      if (next + width > right) [next, row] = [left, row + 1];
      const entry = { curve, label, left: next, row };
      next += width + GAP;
      return entry;
    });
}

/** What is on the screen, with its title and a legend, on the page's own ground. */
export function png(plot: HTMLCanvasElement, sheet: Sheet, theme: Theme): Promise<Blob | null> {
  const ratio = window.devicePixelRatio || 1;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  if (context === null) return Promise.resolve(null);
  context.font = theme.font;
  const widthOf = (text: string): number => context.measureText(text).width;
  const entries = legend(sheet, [6, plot.width / ratio], widthOf);
  const top = 22 + ROW * (entries.at(-1)?.row ?? 0);
  // What was set is forgotten with the size.
  [canvas.width, canvas.height] = [plot.width, plot.height + top * ratio];
  context.fillStyle = theme.background;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(plot, 0, canvas.height - plot.height);
  context.scale(ratio, ratio);
  context.fillStyle = theme.text;
  context.font = `bold ${theme.font}`;
  context.fillText(sheet.name, 6, 15);
  context.font = theme.font;
  context.lineWidth = 2;
  for (const { curve, label, left, row } of entries) {
    const base = 15 + ROW * row;
    context.strokeStyle = colour(curve, theme);
    context.setLineDash(curve.split === "validation" ? [6, 4] : []);
    context.beginPath();
    context.moveTo(left, base - 4);
    context.lineTo(left + 22, base - 4);
    context.stroke();
    context.fillText(label, left + SAMPLE, base);
  }
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}

/** Let the browser save a file. */
export function download(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name.replace(/[^\p{L}\p{N}._-]+/gu, "_");
  link.click();
  // The browser has begun to read it by then.
  window.setTimeout(() => {
    URL.revokeObjectURL(link.href);
  }, 10_000);
}
