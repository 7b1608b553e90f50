/** A curve as small as a word, and the same in words. */

import type { TranslationBundle } from "@jupyterlab/translation";

import { setAttribute } from "../view/dom";
import { number } from "../view/format";

type Values = readonly (number | null)[];

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 100;
const HEIGHT = 20;
/** How many times its lowest value a curve's highest is that is drawn by logarithms. */
const FAR = 3;
/** Room for half the line's width at the highest and the lowest value. */
const MARGIN = 2;

export function sparkline(values: Values, label: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  setAttribute(svg, "class", "tos-lab-sparkline");
  setAttribute(svg, "role", "img");
  setAttribute(svg, "viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  // As wide as its place: the style sheet keeps the line from being stretched, too.
  setAttribute(svg, "preserveAspectRatio", "none");
  svg.append(document.createElementNS(SVG, "path"));
  updateSparkline(svg, values, label);
  return svg;
}

export function updateSparkline(svg: SVGSVGElement, values: Values, label: string): void {
  setAttribute(svg, "aria-label", label);
  const path = svg.querySelector("path");
  if (path) setAttribute(path, "d", outline(values));
}

/** The path's data: a line for each stretch of known values, a dot for a lone one. */
export function outline(values: Values): string {
  const scale = scaleOf(values.filter(isKnown));
  const known = values.filter(isKnown).map(scale);
  const least = Math.min(...known);
  const span = Math.max(...known) - least;
  const step = (WIDTH - 2 * MARGIN) / Math.max(1, values.length - 1);
  let data = "";
  let drawing = false;
  values.forEach((value, i) => {
    if (isKnown(value)) {
      const height = span === 0 ? 0.5 : (scale(value) - least) / span;
      const x = (MARGIN + i * step).toFixed(1);
      const y = (HEIGHT - MARGIN - height * (HEIGHT - 2 * MARGIN)).toFixed(1);
      data += drawing ? `L${x} ${y}` : `M${x} ${y}h0`;
    }
    drawing = isKnown(value);
  });
  return data;
}

/** Logarithms of a loss that fell far: else its beginning would be all that is to be seen. */
function scaleOf(known: number[]): (value: number) => number {
  const least = Math.min(...known);
  return least > 0 && Math.max(...known) > FAR * least ? Math.log : (value) => value;
}

/** What a person who does not see the curve should know of it. */
export function inWords(losses: Values, trans: TranslationBundle): string {
  const known = losses.filter(isKnown);
  if (known.length === 0) return trans.__("No loss yet");
  const values = [known[0], known[known.length - 1], Math.min(...known)].map(number);
  return trans.__("Loss: began at %1, now %2, lowest %3", ...values);
}

function isKnown(value: number | null): value is number {
  return value !== null && Number.isFinite(value);
}
