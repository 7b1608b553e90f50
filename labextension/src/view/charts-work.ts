/** Curves of the work itself: how fast, how stale, at which rate, at what cost. */

import { type Band, bands } from "./charts-marks";
import { AXIS_ROWS, type RunModel, type Series, Table } from "./model";
import { rateOf } from "./requests";
import { t } from "./text";

/** Over which the samples per second are taken. */
const INTERVALS = 80;

/** Of the kernel's own series. */
const RATE = "learning rate";

type Worked = Pick<RunModel, "series" | "run" | "commands">;
type Row = [time: number, samples: number, epoch: number, value: number];

function made(name: string, rows: readonly Row[]): Series {
  const points = Table.of(
    AXIS_ROWS,
    AXIS_ROWS.map((_, i) => rows.map((row) => row[i])),
  );
  return { name, split: "work", points };
}

/** The training loss's own places: all of the training is on them. */
function places({ series }: Pick<Worked, "series">): Row[] {
  const loss = series.find(({ name, split }) => name === "loss" && split === "training");
  if (!loss) return [];
  const columns = AXIS_ROWS.map((_, i) => loss.points.column(i));
  return Array.from({ length: loss.points.length }, (_, i) => columns.map((c) => c[i]) as Row);
}

/** Samples per second, in even intervals of the time in which anything was trained. */
export function throughput(rows: readonly Row[], pauses: readonly Band[] = []): Row[] {
  if (rows.length < 2) return [];
  const ordered = [...rows].sort((a, b) => a[0] - b[0]);
  const trained = (from: number, to: number): number =>
    pauses.reduce(
      (left, pause) => left - Math.max(0, Math.min(to, pause.to) - Math.max(from, pause.from)),
      to - from,
    );
  const whole = trained(ordered[0][0], ordered[ordered.length - 1][0]);
  const width = whole / Math.min(INTERVALS, rows.length - 1);
  const found: Row[] = [];
  let before = ordered[0];
  for (const row of ordered) {
    const seconds = trained(before[0], row[0]);
    if (seconds < width * (1 - 1e-6) || seconds <= 0) continue;
    found.push([row[0], row[1], row[2], Math.max(0, row[1] - before[1]) / seconds]);
    before = row;
  }
  return found;
}

/** The learning rate where nothing has changed it: a line, if it is known. */
export function fixedRate(
  { series, run }: Pick<Worked, "series" | "run">,
  rows: readonly Row[],
): Row[] {
  const rate = run && rateOf(run);
  const changed = series.some(({ name, split }) => name === RATE && split === "work");
  if (rate === null || changed) return [];
  // A row at each time: a line from the first to the last would lead across pauses.
  return rows.map(([time, samples, epoch]) => [time, samples, epoch, rate]);
}

/** All curves of the work of which anything is known. */
export function work(model: Worked): Series[] {
  const rows = places(model);
  const pauses = bands(model, model.run?.elapsed ?? 0).filter(({ kind }) => kind === "pause");
  const own = [
    made(t("samples per second"), throughput(rows, pauses)),
    made(t("learning rate"), fixedRate(model, rows)),
  ];
  return [
    ...own.filter(({ points }) => points.length > 0),
    ...model.series.filter(({ split, points }) => split === "work" && points.length > 0),
  ];
}
