/** The charts of a run: one for each quantity that is trained, and those of the work itself. */

import { Chart, type Scene } from "./chart";
import { overlay } from "./charts-marks";
import type { Range } from "./charts-scale";
import { ChartState } from "./charts-state";
import { Toolbar } from "./charts-toolbar";
import { work } from "./charts-work";
import type { Axis, ChartSettings } from "./curves";
import { h, setAttribute, setText } from "./dom";
import { AXIS_ROWS, hasEnded, type RunModel, type Series } from "./model";
import { Nothing } from "./nothing";
import { type Choices, type Other, Others } from "./others";
import { t } from "./text";
import type { Theme } from "./theme";

/** Charts that are shown at once, unless all are asked for. */
const MOST = 6;
/** From so many on they are lower. */
const MANY = 4;
const [LOW, HIGH, HIGHEST] = [150, 212, 260];
/** Pixels of width below which charts stand in one column. */
const NARROW = 540;
/** Pixels of a chart besides its plot; those that a plot keeps; between two charts, and two rows. */
const [CAPTION, LEAST, GAP, BETWEEN] = [18, 80, 16, 4];
/** A chart is at least so wide. */
const LEAST_WIDE = 260;
/** Of the work: it has a smaller place. */
const OF_WORK = 150;

export class Charts {
  readonly element: HTMLElement;
  /** Charts of throughput and the like. */
  readonly work = h("div", { class: "tos-charts", "data-tos": "work-charts" });
  /** What all charts share; the lanes may follow its cursor. */
  readonly state: ChartState;
  /** What the settings want; what was chosen here since stands until they want another. */
  private wanted: Axis;
  private readonly toolbar: Toolbar;
  /** null where other runs are unknown. */
  private readonly others: Others | null;
  private readonly plots = new Map<string, Chart>();
  private readonly grid = h("div", { class: "tos-charts" });
  private readonly more = h("button", { class: "tos-chip", hidden: true });
  /** In the place of charts that would be empty for ever. */
  private readonly nothing = new Nothing();
  private all = false;
  /** Pixels that something above takes of the charts' place; below 0 there are more for them. */
  taken = 0;
  /** Whether the view is, with what stands beside the charts: then they are higher. */
  wide = false;

  constructor(
    private readonly theme: Theme,
    changed: () => void,
    choices: Choices | null = null,
  ) {
    this.state = new ChartState(changed);
    this.wanted = this.state.options.axis;
    this.toolbar = new Toolbar(this.state);
    this.more.addEventListener("click", () => {
      this.all = !this.all;
      changed();
    });
    this.toolbar.element.append(this.more);
    this.others = choices && new Others(choices, this.state);
    if (this.others) this.toolbar.element.append(this.others.button);
    this.element = h(
      "div",
      { role: "group", class: "tos-panel", "aria-label": t("Curves") },
      this.toolbar.element,
      ...(this.others ? [this.others.drawer.element] : []),
      this.grid,
      this.nothing.element,
    );
  }

  /** What is left out stays as it is. */
  configure({
    axis = this.wanted,
    points = this.state.options.points,
  }: Partial<ChartSettings>): void {
    if (axis !== this.wanted) {
      this.toolbar.axis.value = this.wanted = axis;
      this.state.change({ axis, points });
    } else this.state.change({ points });
  }

  draw(model: RunModel): void {
    const trained = model.series.filter(({ split }) => split !== "work");
    const names = [...new Set(trained.map(({ name }) => name))];
    if (names.length === 0) names.push("loss");
    const shown = this.all ? names : names.slice(0, MOST);
    this.offerMore(names.length - MOST);
    this.toolbar.draw();
    if (model.run) this.others?.draw(model.run.id);
    const others = (this.others?.all ?? []).map((other) => this.drawnOf(other));
    const scene = this.scene(model);
    // What is out of sight is not drawn: a closed tab or list has no size.
    const worked = this.work.clientWidth > 0 ? work(model) : [];
    const kept = new Set([...shown, ...worked.map(({ name }) => `work ${name}`)]);
    for (const [key, chart] of this.plots) {
      if (!kept.has(key)) this.drop(key, chart);
    }
    // One that is enlarged has a row for itself.
    const beside = shown.filter((name) => this.plots.get(name)?.large !== true);
    setAttribute(this.grid, "data-count", String(beside.length));
    setAttribute(this.work, "data-count", String(worked.length));
    const height = this.height(shown.length);
    const rows = this.rows(shown.length);
    const whole = rows * (height + CAPTION) + (rows - 1) * BETWEEN;
    const bare = this.nothing.draw(model, others.length > 0, whole);
    this.grid.hidden = bare;
    // All are there before one is drawn: each has its width by how many there are.
    const metrics = shown.map((name) => this.chart(name, name, this.grid));
    const works = worked.map(({ name }) => this.chart(`work ${name}`, name, this.work));
    shown.forEach((name, i) => {
      const { totals } = model;
      const now = (name === "loss" ? totals?.loss : totals?.metrics?.[name]) ?? null;
      const own = trained.filter((series) => series.name === name);
      const beside = others.map(({ trained: all, ...rest }) => ({
        ...rest,
        series: all.filter((series) => series.name === name),
      }));
      const best = model.totals?.best?.[name]?.value ?? null;
      metrics[i].draw(own, { ...scene, best, height, now, others: beside });
    });
    worked.forEach((series, i) => {
      works[i].draw([series], { ...scene, best: null, height: OF_WORK, now: null, others: [] });
    });
  }

  /** Call as time passes: what was asked of another run may get lost. */
  tick(): void {
    this.others?.tick();
  }

  /** Colours or sizes changed: draw from nothing. */
  restyle(): void {
    for (const chart of this.plots.values()) chart.reset();
  }

  destroy(): void {
    this.others?.destroy();
    for (const [key, chart] of this.plots) this.drop(key, chart);
  }

  private chart(key: string, name: string, place: HTMLElement): Chart {
    let chart = this.plots.get(key);
    if (!chart) {
      const metric = name === "loss" ? "loss-chart" : "metric-chart";
      const hook = place === this.work ? "work-chart" : metric;
      chart = new Chart(name, this.theme, this.state, hook);
      this.plots.set(key, chart);
      place.append(chart.element);
    }
    return chart;
  }

  private drop(key: string, chart: Chart): void {
    chart.destroy();
    this.plots.delete(key);
  }

  private height(count: number): number {
    const spared = Math.ceil(this.taken / this.rows(count));
    return Math.max(LEAST, this.whole(count) - spared);
  }

  private rows(count: number): number {
    const width = this.toolbar.element.clientWidth;
    const beside = Math.max(1, Math.floor((width + GAP) / (LEAST_WIDE + GAP)));
    return width > 0 ? Math.ceil(count / beside) : 1;
  }

  private whole(count: number): number {
    const width = this.toolbar.element.clientWidth;
    if (count >= MANY || (count > 1 && width > 0 && width < NARROW)) return LOW;
    return this.wide ? HIGHEST : HIGH;
  }

  private offerMore(hidden: number): void {
    this.more.hidden = hidden <= 0;
    setText(this.more, this.all ? t("Fewer charts") : t("+%1 charts", hidden));
    setAttribute(this.more, "aria-expanded", String(this.all));
  }

  private scene(model: RunModel): Omit<Scene, "best" | "height" | "now" | "others"> {
    const { axis } = this.state.options;
    const seen = (this.others?.all ?? []).filter(({ id }) => !this.state.hidden.has(id));
    const others = seen.flatMap(({ model: { series } }) => series);
    return { overlay: overlay(model, axis), x: extent(model, others, axis) };
  }

  private drawnOf(other: Other) {
    const { series } = other.model;
    const { bands } = overlay(other.model, this.state.options.axis);
    return {
      beside: other,
      trained: series.filter(({ split }) => split !== "work"),
      pauses: bands.filter(({ kind }) => kind === "pause"),
    };
  }
}

/** All of x: what was trained so far, also by others, in time up to now. */
function extent({ series, run }: RunModel, others: readonly Series[], axis: Axis): Range {
  const row = AXIS_ROWS.indexOf(axis);
  let [first, last] = [Infinity, -Infinity];
  for (const { points } of [...series, ...others]) {
    for (const value of points.column(row)) {
      first = Math.min(first, value);
      last = Math.max(last, value);
    }
  }
  if (first > last) return [0, 1];
  if (axis === "time" && run && !hasEnded(run.state)) last = Math.max(last, run.elapsed);
  // A run that goes on from a checkpoint may begin far from 0.
  if (first >= 0 && first < 0.2 * last) first = 0;
  return first < last ? [first, last] : [first - 0.5, first + 0.5];
}
