/** The chart of one quantity. */

import uPlot from "uplot";

import { drawBands, drawMarks } from "./charts-draw";
import { Legend } from "./charts-legend";
import { type Band, type Flag, type Overlay, told } from "./charts-marks";
import { menu } from "./charts-menu";
import { type Bare, DRAG, plotOptions } from "./charts-plot";
import { csv, download, png, type Sheet, svg } from "./charts-save";
import { type Range, yRange } from "./charts-scale";
import type { ChartState } from "./charts-state";
import { align, type Beside, type Curve, curves, curvesBeside, keyOf, summary } from "./curves";
import { h, setAttribute, setText } from "./dom";
import type { Series } from "./model";
import type { Theme } from "./theme";

/** The event that a flag was clicked; its detail is the flag's time. */
export const TOLD = "tos-told";
/** Pixels around the cursor in which a flag is told. */
const NEAR = 8;
/** Share of what is on view by which a key moves the cursor. */
const STEP = 0.02;

/** What is drawn besides one's own curves. */
export interface Scene {
  overlay: Overlay;
  /** All of x, of all charts. */
  x: Range;
  height: number;
  /** See `Picture`. */
  best: number | null;
  /** Other runs, and what they have of this chart. */
  others: readonly { beside: Beside; series: readonly Series[]; pauses: readonly Band[] }[];
  /** Stands for the training curve's latest value, if anything does. */
  now: number | null;
}

export class Chart {
  readonly element: HTMLElement;
  /** Whether it has a row for itself. */
  large = false;
  private readonly target = h("div", { class: "tos-plot", role: "img", tabindex: 0 });
  private readonly tip = h("div", { class: "tos-tip", "aria-hidden": "true", hidden: true });
  private readonly legend: Legend;
  private readonly unfollow: () => void;
  private plot: uPlot | null = null;
  private shape = "";
  private now: number | null = null;
  /** Of all curves, also of those that were switched off. */
  private all: readonly Curve[] = [];
  private sheet: Sheet;
  private hovered = false;
  /** Whether the click that comes is the end of a drag. */
  private dragged = false;

  constructor(
    private readonly name: string,
    private readonly theme: Theme,
    private readonly state: ChartState,
    hook: string,
  ) {
    const { axis, log } = state.options;
    const overlay = { flags: [], bands: [] };
    this.sheet = { name, best: null, axis, log, drawn: [], overlay, x: [0, 1], y: [0, 1] };
    this.legend = new Legend(state);
    const actions = { enlarge: this.enlarge, save: this.save };
    this.element = h(
      "figure",
      { class: "tos-chart", "data-tos": hook, "data-name": name },
      h(
        "figcaption",
        {},
        h("span", { class: "tos-chart-name", title: name }, name),
        this.legend.element,
        menu(name, actions),
      ),
      this.legend.others,
      this.target,
    );
    this.target.addEventListener("keydown", this.press);
    this.target.addEventListener("dblclick", () => {
      state.look(null);
    });
    this.target.addEventListener("click", this.tell);
    this.target.addEventListener("pointerenter", () => {
      this.hovered = true;
    });
    this.target.addEventListener("pointerleave", () => {
      this.hovered = false;
      state.point(null);
    });
    this.target.addEventListener("focusout", () => {
      if (!this.hovered) state.point(null);
    });
    this.unfollow = state.follow(this.follow);
  }

  draw(series: readonly Series[], scene: Scene): void {
    const { state, name } = this;
    const log = state.options.log && name === "loss";
    const options = { ...state.options, log };
    this.now = scene.now;
    setAttribute(this.target, "aria-label", summary(name, series));
    const pauses = scene.overlay.bands.filter(({ kind }) => kind === "pause");
    // Behind one's own.
    const others = scene.others.flatMap((other) =>
      curvesBeside(other.beside, other.series, options, other.pauses),
    );
    const drawn = [...others, ...curves(series, options, pauses)];
    this.all = drawn;
    this.legend.draw(drawn, scene.now);
    const shown = drawn.filter((curve) => !state.hidden.has(keyOf(curve)));
    const x = state.zoom ?? scene.x;
    const y = yRange(shown, x, options.outliers, log);
    this.sheet = {
      ...{ name, best: scene.best, axis: options.axis, log },
      ...{ drawn: shown, overlay: scene.overlay, x, y },
    };
    this.plotted(this.large ? Math.round(1.5 * scene.height) : scene.height);
  }

  reset(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  destroy(): void {
    this.unfollow();
    this.reset();
    this.element.remove();
  }

  private plotted(height: number): void {
    const { drawn } = this.sheet;
    const width = Math.floor(this.target.clientWidth) || 400;
    const lines = drawn.map(({ label, beside }) => [label, beside?.place]);
    const shape = JSON.stringify([this.sheet.axis, this.sheet.log, lines, this.bare]);
    const data = align(drawn) as unknown as uPlot.AlignedData;
    if (this.plot === null || shape !== this.shape) {
      this.reset();
      this.shape = shape;
      this.plot = new uPlot(this.settings(width, height), data, this.target);
      this.plot.over.append(this.tip);
    } else {
      if (this.plot.width !== width || this.plot.height !== height) {
        this.plot.setSize({ width, height });
      }
      this.plot.setData(data);
    }
    // What it points to has moved.
    if (this.state.cursor !== null) this.follow(this.state.cursor);
  }

  private settings(width: number, height: number): uPlot.Options {
    const hooks: uPlot.Hooks.Arrays = {
      drawAxes: [(plot) => { drawBands(plot, this.sheet, this.theme); }], // prettier-ignore
      draw: [(plot) => { drawMarks(plot, this.sheet, this.theme); }], // prettier-ignore
      setCursor: [this.moved],
      setSelect: [this.chosen],
    };
    return plotOptions(() => this.sheet, this.theme, { width, height, hooks }, this.bare);
  }

  /** Axes that would show made-up numbers: there is no point to draw. */
  private get bare(): Bare {
    const empty = ({ x }: Curve): boolean => x.length === 0;
    return { x: this.all.every(empty), y: this.sheet.drawn.every(empty) };
  }

  /** The pointer has moved here. */
  private readonly moved = (plot: uPlot): void => {
    const { left } = plot.cursor;
    if (!this.hovered || left === undefined || left < 0) return;
    this.state.point(plot.posToVal(left, "x"));
  };

  /** The cursor has moved, here or in another chart. */
  private readonly follow = (x: number | null): void => {
    const { plot, sheet } = this;
    this.legend.draw(this.all, this.now);
    if (plot === null) return;
    const left = x === null ? -10 : plot.valToPos(x, "x");
    // Of its own pointer uPlot knows more.
    if (!this.hovered) plot.setCursor({ left, top: x === null ? -10 : 0 }, false);
    const text = x === null ? "" : told(this.near(x));
    this.tip.hidden = text === "";
    setText(this.tip, text);
    this.tip.style.left = `${left}px`;
    this.tip.toggleAttribute("data-left", x !== null && x > (sheet.x[0] + sheet.x[1]) / 2);
  };

  /** The flags under the cursor. */
  private near(x: number): Flag[] {
    const { overlay, x: range } = this.sheet;
    const width = this.plot ? this.plot.bbox.width / uPlot.pxRatio : 1;
    const within = (NEAR * (range[1] - range[0])) / Math.max(1, width);
    return overlay.flags.filter((flag) => Math.abs(flag.x - x) <= within);
  }

  /** The flag under the pointer was clicked: somebody else knows more of it. */
  private readonly tell = (): void => {
    const { cursor } = this.state;
    const flag = cursor === null || this.dragged ? undefined : this.near(cursor).at(0);
    this.dragged = false;
    if (!flag) return;
    this.element.dispatchEvent(new CustomEvent(TOLD, { bubbles: true, detail: flag.time }));
  };

  /** A part of x was chosen by dragging. */
  private readonly chosen = (plot: uPlot): void => {
    const { left, width } = plot.select;
    if (width < DRAG) return;
    this.dragged = true;
    const [from, to] = [left, left + width].map((at) => plot.posToVal(at, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.state.look([from, to]);
  };

  /** Arrows move the cursor, + and - choose a part around it, 0 and Escape return. */
  private readonly press = (event: KeyboardEvent): void => {
    const { state, sheet } = this;
    const [from, to] = sheet.x;
    const at = state.cursor ?? to;
    const keys: Partial<Record<string, () => void>> = {
      ArrowLeft: () => { state.point(Math.max(from, at - STEP * (to - from))); }, // prettier-ignore
      ArrowRight: () => { state.point(Math.min(to, at + STEP * (to - from))); }, // prettier-ignore
      "+": () => { state.look([at - (at - from) / 2, at + (to - at) / 2]); }, // prettier-ignore
      "-": () => { state.look(null); }, // prettier-ignore
      "0": () => { state.look(null); }, // prettier-ignore
      Escape: () => { state.point(null); }, // prettier-ignore
    };
    const act = event.target === this.target ? keys[event.key] : undefined;
    if (!act) return;
    event.preventDefault();
    act();
  };

  private readonly enlarge = (): void => {
    this.large = !this.large;
    this.element.classList.toggle("tos-large", this.large);
    this.state.changed();
  };

  private readonly save = (kind: "png" | "svg" | "csv"): void => {
    const { sheet, plot } = this;
    const file = `${sheet.name}.${kind}`;
    if (kind === "csv") download(new Blob([csv(sheet)], { type: "text/csv" }), file);
    if (kind === "svg") download(new Blob([svg(sheet)], { type: "image/svg+xml" }), file);
    if (kind !== "png" || plot === null) return;
    void png(plot.ctx.canvas, sheet, this.theme).then((image) => {
      if (image) download(image, file);
    });
  };
}
