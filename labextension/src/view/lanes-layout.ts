/** Where each milestone goes: pure, so that it can be tested and timed without a canvas. */

import { hasStaleness } from "./lockstep";
import { LANE_ROWS, type Mark, type RunModel, type Worker } from "./model";
import { t } from "./text";
import { STALENESS_STEPS } from "./theme";

export const MAX_LANES_SHOWN = 64;
/** About as many milestones are shown per lane. */
const MILESTONES_SHOWN = 30;
const SPANS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];

export interface Lane {
  index: number;
  worker: Worker;
}

/** Rectangles of one look, as x, y, width, height one after another. */
export type Boxes = number[];

export interface Layout {
  lanes: Lane[];
  hidden: number;
  from: number;
  to: number;
  laneHeight: number;
  /** The highest staleness on view; the colours share it out. */
  worst: number;
  compute: Boxes[];
  exchange: Boxes;
  wait: Boxes;
  marks: { x: number; y: number; mark: Mark }[];
}

const [WORKER, END, COMPUTE, WAIT, EXCHANGE, STALENESS] = LANE_ROWS.map((_, i) => i);

/** The seconds on view: about MILESTONES_SHOWN of a worker, in round steps so that it stays. */
export function span(model: RunModel): number {
  const n = model.lanes.length;
  if (n === 0) return SPANS[0];
  let total = 0;
  for (const row of [COMPUTE, WAIT, EXCHANGE]) {
    for (const value of model.lanes.column(row)) total += value;
  }
  const wanted = (MILESTONES_SHOWN * total) / n;
  return SPANS.find((step) => step >= wanted) ?? SPANS[SPANS.length - 1];
}

/** Workers that still train or have something on view, one executor's next to each other. */
export function visibleLanes(model: RunModel, from: number): Lane[] {
  const seen = new Set<number>();
  const ends = model.lanes.column(END);
  model.lanes.column(WORKER).forEach((worker, i) => {
    if (ends[i] >= from) seen.add(worker);
  });
  return model.workers
    .map((worker, index) => ({ index, worker }))
    .filter(({ index, worker }) => worker.state !== "done" || seen.has(index))
    .sort((a, b) => compareExecutors(a.worker, b.worker) || a.index - b.index);
}

function compareExecutors(a: Worker, b: Worker): number {
  return a.executor.localeCompare(b.executor, "en", { numeric: true });
}

export function stalenessStep(staleness: number, worst: number): number {
  if (staleness <= 0) return 0;
  return Math.min(STALENESS_STEPS - 1, Math.ceil((staleness / worst) * (STALENESS_STEPS - 1)));
}

/** The greatest staleness of each colour, as the legend names it. */
export function stalenessBounds(worst: number): number[] {
  return Array.from({ length: STALENESS_STEPS }, (_, i) =>
    Math.floor((i * worst) / (STALENESS_STEPS - 1)),
  );
}

export function layOut(model: RunModel, width: number): Layout {
  const ends = model.lanes.column(END);
  const to = ends.reduce((a, b) => Math.max(a, b), 0);
  // Before a whole span has been seen, what there is fills the width.
  const from = Math.max(to - span(model), Math.min(to - SPANS[0] / 10, began(model)));
  const all = visibleLanes(model, from);
  const lanes = all.slice(0, MAX_LANES_SHOWN);
  const laneHeight = Math.max(7, Math.min(20, Math.floor(400 / Math.max(1, lanes.length))));
  const layout: Layout = {
    ...{ lanes, hidden: all.length - lanes.length, from, to, laneHeight },
    worst: Math.max(4, worstStaleness(model, from)),
    compute: Array.from({ length: STALENESS_STEPS }, () => []),
    ...{ exchange: [], wait: [], marks: [] },
  };
  const rowOf = new Map(lanes.map(({ index }, row) => [index, row]));
  addSegments(model, layout, rowOf, width);
  for (const mark of model.marks) {
    const row = rowOf.get(mark.worker);
    if (row === undefined || mark.time < from || mark.time > to) continue;
    const x = ((mark.time - from) / (to - from)) * width;
    layout.marks.push({ x, y: (row + 0.5) * laneHeight, mark });
  }
  return layout;
}

/** When the oldest milestone we know began. */
function began(model: RunModel): number {
  const [end, compute, wait, exchange] = [END, COMPUTE, WAIT, EXCHANGE].map((row) =>
    model.lanes.column(row),
  );
  return end.reduce(
    (first, at, i) => Math.min(first, at - compute[i] - wait[i] - exchange[i]),
    1e9,
  );
}

function worstStaleness(model: RunModel, from: number): number {
  const ends = model.lanes.column(END);
  return model.lanes
    .column(STALENESS)
    .reduce((worst, value, i) => (ends[i] >= from ? Math.max(worst, value) : worst), 0);
}

/** A milestone is an exchange, perhaps a wait, then the computation that ends it. */
function addSegments(
  model: RunModel,
  layout: Layout,
  rowOf: Map<number, number>,
  width: number,
): void {
  const { from, to, laneHeight } = layout;
  const scale = width / (to - from);
  const [worker, end, compute, wait, exchange, staleness] = LANE_ROWS.map((_, i) =>
    model.lanes.column(i),
  );
  const add = (
    boxes: Boxes,
    right: number,
    seconds: number,
    row: number,
    share: number,
  ): number => {
    const left = right - seconds;
    if (seconds > 0 && right >= from) {
      const x = Math.max(0, (left - from) * scale);
      const height = (laneHeight - 2) * share;
      const w = Math.max(0.5, (right - from) * scale - x - (share === 1 ? 0.5 : 0));
      boxes.push(x, row * laneHeight + (laneHeight - height) / 2, w, height);
    }
    return left;
  };
  for (let i = 0; i < model.lanes.length; i++) {
    const row = rowOf.get(worker[i]);
    if (row === undefined || end[i] < from) continue;
    const step = stalenessStep(staleness[i], layout.worst);
    let at = add(layout.compute[step], end[i], compute[i], row, 1);
    at = add(layout.wait, at, wait[i], row, 0.15);
    add(layout.exchange, at, exchange[i], row, 0.5);
  }
}

/** The lanes in words. */
export function lanesSummary(model: RunModel, layout: Layout): string {
  const { lanes, from, to, hidden } = layout;
  if (lanes.length === 0) return t("No milestone yet.");
  const executors = new Set(lanes.map(({ worker }) => worker.executor)).size;
  const sizes = [Math.round(to - from), lanes.length, executors];
  const shown =
    hidden > 0
      ? t("The last %1 seconds of %2 workers on %3 executors, %4 more not shown", ...sizes, hidden)
      : t("The last %1 seconds of %2 workers on %3 executors", ...sizes);
  const lost = model.marks.filter(({ kind }) => kind !== "retry").length;
  const retries = model.marks.length - lost;
  if (!hasStaleness(model.run)) {
    return t("%1; %2 retries and %3 losses so far.", shown, retries, lost);
  }
  const worst = layout.worst > 4 ? layout.worst : worstStaleness(model, from);
  return t(
    "%1; highest staleness %2; %3 retries and %4 losses so far.",
    ...[shown, worst, retries, lost],
  );
}
