/** A chart as a file: CSV and SVG of what is on view, PNG as it is on the screen. */

import type { Overlay } from "./charts-marks";
import { type Range, xLabels, xTicks, yLabel, yTicks } from "./charts-scale";
import type { Axis, Curve } from "./curves";
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
    ...legend(drawn),
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

function legend(drawn: readonly Curve[]): string[] {
  const own = drawn.filter(({ raw, beside }) => !raw && !beside);
  // Other runs have a line of their own: each its name once.
  const others = new Map(drawn.flatMap((curve) => (curve.beside ? [[curve.beside, curve]] : [])));
  const entry = (curve: Curve, label: string, left: number, y: number): string =>
    `<path d="M${left} ${y - 4}h22" ${stroke(curve)} stroke-width="${curve.beside ? 1 : 2}"/>` +
    `<text x="${left + 28}" y="${y}">${escaped(label)}</text>`;
  return [
    ...own.map((curve, i) => entry(curve, curve.label, LEFT + 150 + 180 * i, 14)),
    ...[...others.values()].map((curve, i) =>
      entry(
        { ...curve, split: "training" },
        shortened(curve.beside?.name ?? "", 24),
        LEFT + 190 * i,
        29,
      ),
    ),
  ];
}

/** What is on the screen, with its title, on the page's own ground. */
export function png(plot: HTMLCanvasElement, name: string, theme: Theme): Promise<Blob | null> {
  const ratio = window.devicePixelRatio || 1;
  const top = 22 * ratio;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [plot.width, plot.height + top];
  const context = canvas.getContext("2d");
  if (context === null) return Promise.resolve(null);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = theme.text;
  context.font = `bold ${13 * ratio}px sans-serif`;
  context.fillText(name, 6 * ratio, 15 * ratio);
  context.drawImage(plot, 0, top);
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
