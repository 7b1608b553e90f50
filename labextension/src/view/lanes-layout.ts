/** Where each milestone goes: pure, so that it can be tested and timed without a canvas. */

import { hasStaleness } from "./lockstep";
import { hasEnded, LANE_ROWS, type Mark, type RunModel, type Worker } from "./model";
import { t, tn } from "./text";
import { STALENESS_STEPS } from "./theme";
import { word } from "./words";

export const MAX_LANES_SHOWN = 64;
/** About as many milestones are shown per lane. */
const MILESTONES_SHOWN = 30;
const SPANS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];

/** More lanes are sorted by how far behind they are, and most of them are thin. */
export const CROWD = 16;
/** Of a crowd so many are as high as a name, the slowest. */
const NAMED = 5;
const [THIN, THICK] = [4, 18];
/** Seconds for which a crowd keeps its order. */
const ORDERED = 5;

export interface Lane {
  index: number;
  worker: Worker;
}

/** A lane's place. */
export interface Row extends Lane {
  top: number;
  height: number;
}

/** What is wanted of the lanes. */
export interface View {
  /** So many seconds; null is about MILESTONES_SHOWN milestones, Infinity is all that is known. */
  seconds: number | null;
  /** In which order a crowd was, and when; `layOut` renews it now and then. */
  order?: { at: number; lanes: number[] };
}

/** Rectangles of one look, as x, y, width, height one after another. */
export type Boxes = number[];

export interface Layout {
  lanes: Row[];
  hidden: number;
  from: number;
  to: number;
  /** Of all lanes together. */
  height: number;
  /** The highest staleness on view; the colours share it out. */
  worst: number;
  compute: Boxes[];
  exchange: Boxes;
  wait: Boxes;
  marks: { x: number; y: number; mark: Mark }[];
  /** Why there is nothing in a lane. */
  notes: { y: number; text: string }[];
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

export function layOut(model: RunModel, width: number, view: View = { seconds: null }): Layout {
  const ends = model.lanes.column(END);
  const to = ends.reduce((a, b) => Math.max(a, b), 0);
  const seconds = view.seconds ?? span(model);
  // Before a whole span has been seen, what there is fills the width.
  const from = Math.max(to - seconds, Math.min(to - SPANS[0] / 10, began(model)));
  const all = visibleLanes(model, from);
  const lanes = rows(all.length > CROWD ? byLag(all, to, view) : all);
  const last = lanes.at(-1);
  const layout: Layout = {
    ...{ lanes, hidden: all.length - lanes.length, from, to },
    // The place of those that have not come yet, or have ended, stays.
    height: Math.max(last ? last.top + last.height : THICK, heightOf(model.run?.partitions ?? 1)),
    worst: Math.max(4, worstStaleness(model, from)),
    compute: Array.from({ length: STALENESS_STEPS }, () => []),
    ...{ exchange: [], wait: [], marks: [], notes: [] },
  };
  const rowOf = new Map(lanes.map((row) => [row.index, row]));
  const filled = addSegments(model, layout, rowOf, width);
  for (const mark of model.marks) {
    const row = rowOf.get(mark.worker);
    if (row === undefined || mark.time < from || mark.time > to) continue;
    const x = ((mark.time - from) / (to - from)) * width;
    layout.marks.push({ x, y: row.top + row.height / 2, mark });
  }
  for (const { index, worker, top, height } of lanes) {
    const text = filled.has(index) || height < THICK ? "" : absence(worker, model.run?.state ?? "");
    if (text) layout.notes.push({ y: top + height / 2, text });
  }
  return layout;
}

/** Why a worker has trained nothing of late. */
export function absence({ state }: Pick<Worker, "state">, run: string): string {
  if (hasEnded(run) && ["lost", "failed"].includes(state)) return word(state);
  if (state === "lost") return t("lost; its data waits for a free slot");
  if (state !== "waiting") return "";
  return run === "paused"
    ? t("waits until the run continues")
    : t("waits for the others, or for a free slot");
}

/** The slowest first; the order stays for a while, so that lanes can be looked at. */
function byLag(all: Lane[], to: number, view: View): Lane[] {
  const known = view.order;
  if (!known || to < known.at || to - known.at > ORDERED || known.lanes.length !== all.length) {
    const lag = ({ worker }: Lane): number =>
      worker.state === "training" ? (worker.samples_per_second ?? 0) : -1;
    const sorted = [...all].sort((a, b) => lag(a) - lag(b) || a.index - b.index);
    view.order = { at: to, lanes: sorted.map(({ index }) => index) };
  }
  const place = new Map(view.order?.lanes.map((index, i) => [index, i]));
  return [...all].sort((a, b) => (place.get(a.index) ?? 0) - (place.get(b.index) ?? 0));
}

function rows(all: readonly Lane[]): Row[] {
  return all.slice(0, MAX_LANES_SHOWN).map((lane, i) => {
    const top = heightOf(i, all.length);
    return { ...lane, top, height: heightOf(i + 1, all.length) - top };
  });
}

/** Of the first `count` lanes, of which there are `whole`. */
function heightOf(count: number, whole = count): number {
  const thin = whole > CROWD ? Math.max(0, Math.min(count, MAX_LANES_SHOWN) - NAMED) : 0;
  return thin * THIN + (Math.min(count, MAX_LANES_SHOWN) - thin) * THICK;
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
  rowOf: Map<number, Row>,
  width: number,
): Set<number> {
  const { from, to } = layout;
  const filled = new Set<number>();
  const scale = width / (to - from);
  const [worker, end, compute, wait, exchange, staleness] = LANE_ROWS.map((_, i) =>
    model.lanes.column(i),
  );
  const add = (
    boxes: Boxes,
    right: number,
    seconds: number,
    { top, height: whole }: Row,
    share: number,
  ): number => {
    const left = right - seconds;
    if (seconds > 0 && right >= from) {
      const x = Math.max(0, (left - from) * scale);
      const height = (whole - (whole > THIN ? 2 : 1)) * share;
      const w = Math.max(0.5, (right - from) * scale - x - (share === 1 ? 0.5 : 0));
      boxes.push(x, top + (whole - height) / 2, w, height);
    }
    return left;
  };
  for (let i = 0; i < model.lanes.length; i++) {
    const row = rowOf.get(worker[i]);
    if (row === undefined || end[i] < from) continue;
    filled.add(row.index);
    const step = stalenessStep(staleness[i], layout.worst);
    let at = add(layout.compute[step], end[i], compute[i], row, 1);
    at = add(layout.wait, at, wait[i], row, 0.15);
    add(layout.exchange, at, exchange[i], row, 0.5);
  }
  return filled;
}

/** The lanes in words. */
export function lanesSummary(model: RunModel, layout: Layout): string {
  const { lanes, from, to, hidden } = layout;
  if (lanes.length === 0) return t("No milestone yet.");
  const executors = new Set(lanes.map(({ worker }) => worker.executor)).size;
  const sizes = [
    tn("%1 second", "%1 seconds", Math.round(to - from)),
    tn("%1 worker", "%1 workers", lanes.length),
    tn("%1 executor", "%1 executors", executors),
  ];
  const shown =
    hidden > 0
      ? t("The last %1 of %2 on %3, %4 more not shown", ...sizes, hidden)
      : t("The last %1 of %2 on %3", ...sizes);
  const lost = model.marks.filter(({ kind }) => kind !== "retry").length;
  const retries = model.marks.length - lost;
  const wrong = [tn("%1 retry", "%1 retries", retries), tn("%1 loss", "%1 losses", lost)];
  if (!hasStaleness(model.run)) return t("%1; %2 and %3 so far.", shown, ...wrong);
  const worst = layout.worst > 4 ? layout.worst : worstStaleness(model, from);
  return t("%1; highest staleness %2; %3 and %4 so far.", shown, worst, ...wrong);
}
