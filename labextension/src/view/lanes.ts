/** A lane per worker, grouped by executor, on one canvas. */

import { costsText } from "./costs";
import { h, setAttribute, setText } from "./dom";
import { duration, shortened } from "./format";
import { lanesSummary, layOut, stalenessBounds } from "./lanes-layout";
import type { Boxes, Layout } from "./lanes-layout";
import { hasStaleness, inLockstep } from "./lockstep";
import { LANE_ROWS, type RunModel } from "./model";
import { t } from "./text";
import type { Theme } from "./theme";

const LABEL = 74;
/** Characters of a name that has this much room; under the pointer stands all of it. */
const MOST = 12;
const SIGNS = { retry: "↻", lost: "✕", failed: "✕" } as const;
const AXIS = 16;
/** A label is higher than the lowest lane. */
const TOP = 4;

export class Lanes {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { class: "tos-lanes-canvas", role: "img" });
  private readonly legend = h("span", { class: "tos-legend-steps" });
  private readonly computeKey = h("span", { class: "tos-key tos-key-compute" });
  private readonly computed = h("span");
  private readonly exchanged = h("span");
  private readonly waited = h("span");
  private readonly costs = h("p", { class: "tos-costs", "data-tos": "costs", hidden: true });
  private readonly caption = h("p", { class: "tos-caption" }, "");
  private model: RunModel | null = null;
  private layout: Layout | null = null;

  constructor(private readonly theme: Theme) {
    this.element = h(
      "section",
      { class: "tos-panel", "data-tos": "lanes", "aria-label": t("Milestones by executor") },
      h(
        "p",
        { class: "tos-legend" },
        this.computeKey,
        this.computed,
        " ",
        this.legend,
        h("span", { class: "tos-key tos-key-exchange" }),
        this.exchanged,
        h("span", { class: "tos-key tos-key-wait" }),
        this.waited,
        h("span", { class: "tos-mark" }, `${SIGNS.retry} ${t("retry")} ${SIGNS.lost} ${t("lost")}`),
      ),
      this.canvas,
      this.costs,
      this.caption,
    );
    this.canvas.addEventListener("pointermove", this.explain);
    this.canvas.addEventListener("pointerleave", this.forget);
  }

  draw(model: RunModel): void {
    this.model = model;
    const width = Math.floor(this.canvas.parentElement?.clientWidth ?? 0) || 400;
    const layout = layOut(model, width - LABEL);
    this.layout = layout;
    setAttribute(this.canvas, "aria-label", lanesSummary(model, layout));
    this.drawLegend(layout, inLockstep(model.run), hasStaleness(model.run));
    const costs = costsText(model.totals?.costs);
    this.costs.hidden = costs === "";
    setText(this.costs, costs);
    const height = Math.max(1, layout.lanes.length) * layout.laneHeight + TOP + AXIS;
    const context = this.prepare(width, height);
    if (context) this.paint(context, layout, width, height);
  }

  destroy(): void {
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
    context.restore();
  }

  /** The name of an executor stands at its first lane; a line parts it from the one before. */
  private paintLabels(context: CanvasRenderingContext2D, layout: Layout, width: number): void {
    const { theme } = this;
    context.font = theme.font;
    context.textAlign = "left";
    context.textBaseline = "middle";
    let free = 0;
    layout.lanes.forEach(({ worker }, row) => {
      const top = row * layout.laneHeight + TOP;
      const first = row === 0 || layout.lanes[row - 1].worker.executor !== worker.executor;
      if (first && row > 0) {
        context.fillStyle = theme.grid;
        context.fillRect(0, top - 0.5, width, 1);
      }
      if (top < free && row > 0) return;
      const name = first ? shortName(worker.executor) : "";
      context.fillStyle = theme.text;
      context.fillText(name, 0, top + layout.laneHeight / 2 + 0.5, 44);
      context.textAlign = "right";
      context.fillText(
        t("p%1", worker.partition),
        LABEL - 6,
        top + layout.laneHeight / 2 + 0.5,
        26,
      );
      context.textAlign = "left";
      free = top + 12;
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
    context.fillText(duration(Math.max(0, from)), LABEL, height);
    context.textAlign = "right";
    context.fillText(duration(to), width, height);
  }

  private drawLegend(layout: Layout, lockstep: boolean, stale: boolean): void {
    setText(this.computed, stale ? t("compute, colored by staleness") : t("compute"));
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
    setText(
      this.caption,
      describe(
        this.model,
        this.layout,
        event.offsetX - LABEL,
        event.offsetY - TOP,
        this.canvas.clientWidth - LABEL,
      ),
    );
  };

  private readonly forget = (): void => {
    setText(this.caption, "");
  };
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
  const row = Math.floor(y / layout.laneHeight);
  if (x < 0 || row < 0 || row >= layout.lanes.length) return "";
  const { index, worker } = layout.lanes[row];
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
