/** A lane per worker, grouped by executor, on one canvas. */

import { clock } from "./charts-scale";
import type { ChartState } from "./charts-state";
import { costsText } from "./costs";
import { h, setAttribute, setText } from "./dom";
import { duration, shortened } from "./format";
import { Choice } from "./lanes-choice";
import { CROWD, lanesSummary, layOut, stalenessBounds } from "./lanes-layout";
import type { Boxes, Layout, View } from "./lanes-layout";
import { hasStaleness, inLockstep } from "./lockstep";
import { LANE_ROWS, type RunModel } from "./model";
import { t } from "./text";
import type { Theme } from "./theme";

const LABEL = 74;
/** Characters of a name that has this much room; under the pointer stands all of it. */
const MOST = 12;
const SIGNS = { retry: "↻", lost: "✕", failed: "✕" } as const;
const AXIS = 16;
const TOP = 4;
/** Lower lanes have no name. */
const LETTERS = 12;

export class Lanes {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { class: "tos-lanes-canvas", role: "img" });
  private readonly legend = h("span", { class: "tos-legend-steps" });
  private readonly computeKey = h("span", { class: "tos-key tos-key-compute" });
  private readonly computed = h("span");
  /** The same where there is little room. */
  private readonly brief = h("span", { class: "tos-short", "aria-hidden": "true" });
  private readonly exchanged = h("span");
  private readonly waited = h("span");
  private readonly costs = h("p", { class: "tos-costs", "data-tos": "costs", hidden: true });
  private readonly caption = h("p", { class: "tos-caption" }, "");
  /** Where the charts' cursor is. */
  private readonly cursor = h("div", { class: "tos-lanes-cursor", hidden: true });
  private readonly view: View = { seconds: null };
  private readonly unfollow: () => void;
  private model: RunModel | null = null;
  private layout: Layout | null = null;

  constructor(
    private readonly theme: Theme,
    private readonly state: ChartState,
  ) {
    const choice = new Choice((seconds) => {
      this.view.seconds = seconds;
      state.changed();
    });
    this.element = h(
      "div",
      {
        role: "group",
        class: "tos-panel",
        "data-tos": "lanes",
        "aria-label": t("Milestones by executor"),
      },
      h(
        "p",
        { class: "tos-legend" },
        part(this.computeKey, this.computed, this.brief, this.legend),
        part(h("span", { class: "tos-key tos-key-exchange" }), this.exchanged),
        part(h("span", { class: "tos-key tos-key-wait" }), this.waited),
        h("span", { class: "tos-mark" }, `${SIGNS.retry} ${t("retry")} ${SIGNS.lost} ${t("lost")}`),
        choice.element,
      ),
      h("div", { class: "tos-lanes" }, this.canvas, this.cursor, this.caption),
      this.costs,
    );
    this.canvas.addEventListener("pointermove", this.explain);
    this.canvas.addEventListener("pointerleave", this.forget);
    this.unfollow = state.follow(this.follow);
  }

  draw(model: RunModel): void {
    this.model = model;
    const width = Math.floor(this.canvas.parentElement?.clientWidth ?? 0) || 400;
    const layout = layOut(model, width - LABEL, this.view);
    this.layout = layout;
    setAttribute(this.canvas, "aria-label", lanesSummary(model, layout));
    this.drawLegend(layout, inLockstep(model.run), hasStaleness(model.run));
    const costs = costsText(model.totals?.costs);
    this.costs.hidden = costs === "";
    setText(this.costs, costs);
    const height = layout.height + TOP + AXIS;
    const context = this.prepare(width, height);
    if (context) this.paint(context, layout, width, height);
    this.follow(this.state.cursor);
  }

  destroy(): void {
    this.unfollow();
    this.canvas.removeEventListener("pointermove", this.explain);
    this.canvas.removeEventListener("pointerleave", this.forget);
  }

  /** Sizes the canvas to the screen's own pixels; setting a size also clears it. */
  private prepare(width: number, height: number): CanvasRenderingContext2D | null {
    const ratio = window.devicePixelRatio || 1;
    const context = this.canvas.getContext("2d");
    const [w, hgt] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== hgt) {
      this.canvas.width = w;
      this.canvas.height = hgt;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    context?.setTransform(ratio, 0, 0, ratio, 0, 0);
    context?.clearRect(0, 0, width, height);
    return context;
  }

  private paint(
    context: CanvasRenderingContext2D,
    layout: Layout,
    width: number,
    height: number,
  ): void {
    const { theme } = this;
    this.paintLabels(context, layout, width);
    this.paintAxis(context, layout, width, height);
    context.save();
    context.translate(LABEL, TOP);
    layout.compute.forEach((boxes, step) => {
      fill(context, boxes, theme.staleness[step]);
    });
    fill(context, layout.exchange, theme.exchange);
    fill(context, layout.wait, theme.wait);
    context.font = `bold 13px ${theme.font.replace(/^\S+ /, "")}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const { x, y, mark } of layout.marks) {
      const sign = SIGNS[mark.kind];
      context.strokeStyle = theme.background;
      context.lineWidth = 3;
      context.strokeText(sign, x, y);
      context.fillStyle = theme.alarm;
      context.fillText(sign, x, y);
    }
    context.font = theme.font;
    context.textAlign = "left";
    context.fillStyle = theme.text;
    for (const { y, text } of layout.notes) context.fillText(text, 4, y + 0.5);
    context.restore();
  }

  /**
   * The name of an executor stands at its first lane; a line parts it from the one before. Of a
   * crowd, which has another order, the lanes that are high enough have all of their name.
   */
  private paintLabels(context: CanvasRenderingContext2D, layout: Layout, width: number): void {
    const { theme } = this;
    context.font = theme.font;
    context.textBaseline = "middle";
    const crowd = layout.lanes.length > CROWD;
    layout.lanes.forEach(({ worker, top, height }, row) => {
      const first = row === 0 || layout.lanes[row - 1].worker.executor !== worker.executor;
      if (first && row > 0 && !crowd) {
        context.fillStyle = theme.grid;
        context.fillRect(0, top + TOP - 0.5, width, 1);
      }
      if (height < LETTERS) return;
      const middle = top + TOP + height / 2 + 0.5;
      context.fillStyle = worker.note ? theme.alarm : theme.text;
      context.textAlign = "left";
      if (first || crowd) context.fillText(shortName(worker.executor), 0, middle, 44);
      context.textAlign = "right";
      context.fillText(t("p%1", worker.partition), LABEL - 6, middle, 26);
    });
  }

  private paintAxis(
    context: CanvasRenderingContext2D,
    { from, to }: Layout,
    width: number,
    height: number,
  ): void {
    if (to === 0) return;
    context.fillStyle = this.theme.text;
    context.textBaseline = "bottom";
    context.textAlign = "left";
    context.fillText(clock(Math.round(Math.max(0, from))), LABEL, height);
    context.textAlign = "right";
    context.fillText(clock(Math.round(to)), width, height);
  }

  private drawLegend(layout: Layout, lockstep: boolean, stale: boolean): void {
    setText(this.computed, stale ? t("compute, colored by staleness") : t("compute"));
    this.computed.classList.toggle("tos-long", stale);
    setText(this.brief, stale ? t("staleness") : "");
    setText(this.exchanged, lockstep ? t("reduce (exchange)") : t("exchange"));
    setText(this.waited, lockstep ? t("wait for others, or a pause") : t("wait"));
    this.legend.hidden = !stale;
    // Elsewhere the steps of staleness show the colors of what is computed.
    this.computeKey.hidden = stale;
    const bounds = stalenessBounds(layout.worst);
    if (this.legend.dataset.worst === String(layout.worst)) return;
    this.legend.dataset.worst = String(layout.worst);
    this.legend.replaceChildren(
      ...bounds.map((bound, step) => {
        const low = step === 0 ? 0 : bounds[step - 1] + 1;
        const text = low >= bound ? String(bound) : `${low}–${bound}`;
        return h("span", { class: `tos-step tos-step-${step}` }, text);
      }),
    );
  }

  private readonly explain = (event: PointerEvent): void => {
    if (this.model === null || this.layout === null) return;
    const width = this.canvas.clientWidth - LABEL;
    const { from, to } = this.layout;
    const share = (event.offsetX - LABEL) / width;
    if (this.state.options.axis === "time" && share >= 0)
      this.state.point(from + share * (to - from));
    setText(
      this.caption,
      describe(this.model, this.layout, event.offsetX - LABEL, event.offsetY - TOP, width),
    );
  };

  private readonly forget = (): void => {
    this.state.point(null);
    setText(this.caption, "");
  };

  /** Show where the cursor is, if that is on view and the charts are over time. */
  private readonly follow = (x: number | null): void => {
    const { layout, cursor, state } = this;
    const seen = x !== null && layout !== null && x >= layout.from && x <= layout.to;
    cursor.hidden = !seen || state.options.axis !== "time";
    if (!seen) return;
    const share = (x - layout.from) / (layout.to - layout.from);
    cursor.style.left = `${LABEL + share * (this.canvas.clientWidth - LABEL)}px`;
  };
}

/** What stays on one line. */
function part(...nodes: HTMLElement[]): HTMLElement {
  return h("span", { class: "tos-part" }, ...nodes);
}

function shortName(executor: string): string {
  return /^\d+$/.test(executor) ? t("exec %1", executor) : shortened(executor, MOST);
}

/** All boxes of one colour in one path: a few calls instead of thousands. */
function fill(context: CanvasRenderingContext2D, boxes: Boxes, colour: string): void {
  if (boxes.length === 0) return;
  context.fillStyle = colour;
  context.beginPath();
  for (let i = 0; i < boxes.length; i += 4) {
    context.rect(boxes[i], boxes[i + 1], boxes[i + 2], boxes[i + 3]);
  }
  context.fill();
}

/** The milestone under the pointer, in words. */
export function describe(
  model: RunModel,
  layout: Layout,
  x: number,
  y: number,
  width: number,
): string {
  const row = layout.lanes.find(({ top, height }) => y >= top && y < top + height);
  if (x < 0 || !row) return "";
  const { index, worker } = row;
  const time = layout.from + (x / width) * (layout.to - layout.from);
  const who = t("Executor %1, partition %2", worker.executor, worker.partition);
  const [workers, end, compute, wait, exchange, staleness] = LANE_ROWS.map((_, i) =>
    model.lanes.column(i),
  );
  for (let i = model.lanes.length - 1; i >= 0; i--) {
    const began = end[i] - compute[i] - wait[i] - exchange[i];
    if (workers[i] !== index || time > end[i] || time < began) continue;
    const [exchanged, waited, computed] = [exchange[i], wait[i], compute[i]].map(duration);
    if (inLockstep(model.run)) {
      return t("%1: reduce %2, wait %3, compute %4", who, exchanged, waited, computed);
    }
    if (!hasStaleness(model.run)) {
      return t("%1: exchange %2, wait %3, compute %4", who, exchanged, waited, computed);
    }
    const rest = [computed, staleness[i]];
    return wait[i] > 0
      ? t("%1: exchange %2, wait %3, compute %4, staleness %5", who, exchanged, waited, ...rest)
      : t("%1: exchange %2, compute %3, staleness %4", who, exchanged, ...rest);
  }
  return who;
}
