/** How uPlot draws a chart: its axes and lines. */

import uPlot from "uplot";

import { colour } from "./charts-draw";
import type { Sheet } from "./charts-save";
import { xLabels, xTicks, yLabel, yTicks } from "./charts-scale";
import type { Curve } from "./curves";
import type { Theme } from "./theme";

/** uPlot's own names for these are a const enum, which esbuild cannot see. */
const LINEAR: number = 1;
const LOGARITHMIC: number = 3;
/** Up to here single points are worth a dot; of training fewer. */
const DOTS = { training: 40, validation: 60, work: 0 };
/** Pixels that a pointer is dragged at least to choose a part of x. */
export const DRAG = 5;

type Look = Pick<uPlot.Options, "width" | "height" | "hooks">;

/** Which axes have no numbers. */
export type Bare = Record<"x" | "y", boolean>;

/** Whether a line of few points has dots. */
function dotted({ raw, split, x }: Curve): boolean {
  return !raw && x.length <= DOTS[split];
}

function dot({ split, beside }: Curve): number {
  if (beside) return 4;
  return split === "validation" ? 6 : 5;
}

/** `sheet` returns what is on view now: the ranges move while the chart stays. */
export function plotOptions(
  sheet: () => Sheet,
  theme: Theme,
  look: Look,
  bare: Bare,
): uPlot.Options {
  const { axis, log, drawn } = sheet();
  const common = {
    ...{ stroke: theme.text, font: theme.font, gap: 4 },
    ...{ grid: { stroke: theme.grid, width: 1 }, ticks: { show: false } },
    filter: (_: uPlot, splits: number[]) => splits,
  };
  return {
    ...look,
    padding: [6, 16, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false, range: () => sheet().x },
      // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment
      y: { distr: log ? LOGARITHMIC : LINEAR, range: () => sheet().y },
    },
    axes: [
      {
        ...{ ...common, size: 22 },
        splits: (plot, _, min, max) => xTicks(axis, min, max, plot.bbox.width / uPlot.pxRatio),
        values: (_, splits) => (bare.x ? splits.map(() => "") : xLabels(axis, splits)),
      },
      {
        ...{ ...common, size: widest },
        splits: (plot, _, min, max) => yTicks(min, max, plot.bbox.height / uPlot.pxRatio, log),
        values: (_, splits) => splits.map((split) => (bare.y ? "" : yLabel(split))),
      },
    ],
    // A part of x is chosen for all charts at once, and by us.
    cursor: { drag: { x: true, y: false, setScale: false, dist: DRAG }, y: false },
    series: [{}, ...drawn.map((curve, i) => line(curve, () => dotted(sheet().drawn[i]), theme))],
  };
}

/** Pixels that the widest label of the y axis takes. */
function widest(plot: uPlot, values: string[] | null): number {
  const { ctx: context } = plot;
  context.save();
  context.font = plot.axes[1].font?.[0] ?? context.font;
  const widths = (values ?? []).map((text) => context.measureText(text).width);
  context.restore();
  return 12 + Math.max(20, ...widths) / uPlot.pxRatio;
}

/** Validation is told from training by its dashes and dots, not by colour alone. */
function line(curve: Curve, show: () => boolean, theme: Theme): uPlot.Series {
  const validation = curve.split === "validation";
  const stroke = colour(curve, theme);
  return {
    ...{ label: curve.label, stroke, width: curve.raw || curve.beside ? 1 : 2, spanGaps: false },
    dash: validation ? [6, 4] : undefined,
    points: { show, size: dot(curve), fill: stroke, stroke, width: 0 },
  };
}
