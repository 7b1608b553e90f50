/** One uPlot chart per quantity, and the choices that hold for all of them. */

import uPlot from "uplot";

import { align, axisValue, curves, DEFAULT_OPTIONS, summary } from "./curves";
import type { Axis, ChartOptions, ChartSettings, Curve } from "./curves";
import { h, setAttribute, uniqueId } from "./dom";
import { number } from "./format";
import type { RunModel, Series } from "./model";
import { t } from "./text";
import type { Theme } from "./theme";
import { word } from "./words";

const HEIGHT = 220;
/** uPlot's own names for these are a const enum, which esbuild cannot see. */
const LINEAR: number = 1;
const LOGARITHMIC: number = 3;
const MAX_CHARTS = 6;
/** Up to here single points are worth a dot. */
const DOTS = 40;

export class Charts {
  readonly element: HTMLElement;
  private options: ChartOptions = { ...DEFAULT_OPTIONS };
  /** What the settings want; what was chosen here since stands until they want another. */
  private wanted = this.options.axis;
  private readonly axis = h(
    "select",
    { id: uniqueId("axis"), "data-tos": "axis" },
    h("option", { value: "time" }, t("time")),
    h("option", { value: "samples" }, t("samples")),
    h("option", { value: "epoch" }, t("epochs")),
  );
  private readonly plots = new Map<string, Chart>();
  private readonly grid = h("div", { class: "tos-charts" });

  constructor(
    private readonly theme: Theme,
    private readonly changed: () => void,
  ) {
    this.element = h(
      "section",
      { class: "tos-panel", "aria-label": t("Curves") },
      this.toolbar(),
      this.grid,
    );
  }

  /** What is left out stays as it is. */
  configure({ axis = this.wanted, points = this.options.points }: Partial<ChartSettings>): void {
    this.options.points = points;
    if (axis !== this.wanted) this.axis.value = this.options.axis = this.wanted = axis;
    this.changed();
  }

  draw(model: RunModel): void {
    const names = [...new Set(model.series.map((series) => series.name))].slice(0, MAX_CHARTS);
    if (names.length === 0) names.push("loss");
    for (const [name, chart] of this.plots) {
      if (!names.includes(name)) this.drop(name, chart);
    }
    for (const name of names) {
      let chart = this.plots.get(name);
      if (!chart) {
        chart = new Chart(name, this.theme);
        this.plots.set(name, chart);
        this.grid.append(chart.element);
      }
      chart.draw(
        model.series.filter((series) => series.name === name),
        this.options,
        name === "loss" ? (model.totals?.loss ?? null) : null,
      );
    }
  }

  /** Colours or sizes changed: draw from nothing. */
  restyle(): void {
    for (const chart of this.plots.values()) chart.reset();
  }

  destroy(): void {
    for (const [name, chart] of this.plots) this.drop(name, chart);
  }

  private drop(name: string, chart: Chart): void {
    chart.reset();
    chart.element.remove();
    this.plots.delete(name);
  }

  private toolbar(): HTMLElement {
    const { axis } = this;
    const smoothing = h("input", {
      ...{ id: uniqueId("smoothing"), type: "range", min: 0, max: 0.99, step: 0.01, value: 0 },
      "data-tos": "smoothing",
    });
    const log = h("input", { id: uniqueId("log"), type: "checkbox", "data-tos": "log-scale" });
    const choose = (): void => {
      this.options = {
        ...this.options,
        axis: axis.value as Axis,
        smoothing: Number(smoothing.value),
        log: log.checked,
      };
      this.changed();
    };
    for (const input of [axis, smoothing, log]) input.addEventListener("input", choose);
    const field = (text: string, input: HTMLElement): HTMLElement =>
      h("span", { class: "tos-field" }, h("label", { for: input.id }, text), input);
    return h(
      "div",
      { class: "tos-toolbar" },
      field(t("Over"), axis),
      field(t("Smoothing"), smoothing),
      field(t("Log scale"), log),
    );
  }
}

/** The chart of one quantity. */
class Chart {
  readonly element: HTMLElement;
  private readonly target = h("div", { class: "tos-plot", role: "img" });
  /** For eyes only: the summary says the same, and an image has no parts. */
  private readonly legend = h("div", { "aria-hidden": "true" });
  private plot: uPlot | null = null;
  private shape = "";
  private now: number | null = null;

  constructor(
    private readonly name: string,
    private readonly theme: Theme,
  ) {
    const hook = name === "loss" ? "loss-chart" : "metric-chart";
    this.element = h(
      "figure",
      { class: "tos-chart", "data-tos": hook, "data-name": name },
      h("figcaption", {}, name),
      this.target,
      this.legend,
    );
  }

  /** `now` is what stands for the training curve's latest value, if anything does. */
  draw(series: readonly Series[], options: ChartOptions, now: number | null): void {
    this.now = now;
    setAttribute(this.target, "aria-label", summary(this.name, series));
    const drawn = curves(series, options);
    const width = Math.floor(this.target.clientWidth) || 400;
    const dots = drawn.map(({ x, raw }) => !raw && x.length <= DOTS);
    const shape = JSON.stringify([options.axis, options.log, drawn.map((c) => c.label), dots]);
    const data = align(drawn) as unknown as uPlot.AlignedData;
    if (this.plot === null || shape !== this.shape) {
      this.reset();
      this.shape = shape;
      this.plot = new uPlot(this.settings(drawn, dots, options, width), data, this.target);
    } else {
      if (this.plot.width !== width) this.plot.setSize({ width, height: HEIGHT });
      this.plot.setData(data);
    }
  }

  reset(): void {
    this.plot?.destroy();
    this.plot = null;
    this.legend.replaceChildren();
  }

  private settings(
    drawn: readonly Curve[],
    dots: readonly boolean[],
    options: ChartOptions,
    width: number,
  ): uPlot.Options {
    const { theme } = this;
    const axis = { stroke: theme.text, grid: { stroke: theme.grid, width: 1 }, font: theme.font };
    const ticks = { ...axis, ticks: { stroke: theme.grid, width: 1 } };
    const xValues = (_: uPlot, splits: number[]): string[] =>
      splits.map((value) => axisValue(options.axis, value));
    const yValues = (_: uPlot, splits: (number | null)[]): string[] =>
      splits.map((value) => (value === null ? "" : number(value)));
    return {
      width,
      height: HEIGHT,
      // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment
      scales: { x: { time: false }, y: { distr: options.log ? LOGARITHMIC : LINEAR } },
      axes: [
        { ...ticks, values: xValues, size: 30 },
        { ...ticks, values: yValues, size: 58 },
      ],
      // No zoom: the next points, 200 ms later, would undo it.
      cursor: { drag: { x: false, y: false }, y: false },
      legend: {
        mount: (_, table) => {
          this.legend.append(table);
        },
        markers: { dash: (_, i) => (drawn[i - 1]?.split === "validation" ? "dashed" : "solid") },
      },
      series: [
        {
          label: word(options.axis),
          value: (plot, x: number | null) => axisValue(options.axis, x ?? last(plot, 0)),
        },
        ...drawn.map((curve, i) => this.line(curve, dots[i])),
      ],
    };
  }

  /** Validation is told from training by its dashes and dots, not by colour alone. */
  private line(curve: Curve, dots: boolean): uPlot.Series {
    const validation = curve.split === "validation";
    const stroke = validation ? this.theme.validation : this.theme.training;
    return {
      label: curve.label,
      stroke: curve.raw ? this.theme.faint : stroke,
      width: curve.raw ? 1 : 2,
      dash: validation ? [6, 4] : undefined,
      spanGaps: true,
      points: {
        show: validation ? !curve.raw && curve.x.length <= 200 : dots,
        size: 5,
        fill: stroke,
      },
      value: (plot, value: number | null, index) => {
        const now = validation || curve.raw ? null : this.now;
        return number(plot.cursor.idx == null ? (now ?? last(plot, index)) : value);
      },
    };
  }
}

/** Without a pointer over the chart its legend shows the latest values. */
function last(plot: uPlot, index: number): number {
  const values = plot.data[index];
  for (let i = values.length - 1; i >= 0; i--) {
    const value = values[i];
    if (value != null) return value;
  }
  return NaN;
}
