/** What a notebook holds of a run, read as a kernel's own snapshot. */

import { AXIS_ROWS, hasEnded, type Parts, RunModel, type Snapshot, Table } from "../view/model";

interface SavedSeries {
  name: string;
  split: Parts["series"][number]["split"];
  /** Numbers with commas between them for each of `AXIS_ROWS`; nothing for what is not finite. */
  points: string[];
}

type Saved = Omit<Parts, "series" | "lanes"> & { series: SavedSeries[] };

/** Points of a curve, curves and workers at most: a saved notebook stays small. */
const POINTS = 300;
const CURVES = 24;
const WORKERS = 64;
const DIGITS = 6;

/** What the kernel would have written, of what a page shows after the kernel is gone. */
export function savedOf({ message, buffers }: Snapshot): Saved {
  const { run, totals, series, workers, marks, commands, log } = message.state;
  const few = series.slice(0, CURVES).map(({ name, split, length }, i) => {
    const table = new Table(AXIS_ROWS, Math.max(1, length));
    table.append(buffers[i], length);
    return { name, split, points: AXIS_ROWS.map((_, row) => textOf(table.column(row))) };
  });
  const some = workers.slice(0, WORKERS);
  const plain = { ...run };
  Reflect.deleteProperty(plain, "actions");
  return { run: plain, totals, series: few, workers: some, marks, commands, log };
}

function textOf(column: ArrayLike<number>): string {
  const count = Math.min(column.length, POINTS);
  const step = (column.length - 1) / Math.max(1, count - 1);
  return Array.from({ length: count }, (_, i) => {
    const value = column[Math.round(i * step)];
    return Number.isFinite(value) ? String(Number(value.toPrecision(DIGITS))) : "";
  }).join(",");
}

/** What the kernel would have told; null if this is nothing that it has written. */
export function snapshotOf(saved: unknown): Snapshot | null {
  try {
    const { series, ...rest } = saved as Saved;
    const tables = series.map(({ points }) => {
      const columns = points.map((text) =>
        text.split(",").map((v) => (v === "" ? NaN : Number(v))),
      );
      const { length } = columns[0];
      if (columns.length !== AXIS_ROWS.length || columns.some((c) => c.length !== length)) {
        throw new RangeError(`Expected ${AXIS_ROWS.length} columns of one length.`);
      }
      return Table.of(AXIS_ROWS, columns);
    });
    const heads = series.map(({ name, split }, i) => ({
      ...{ name, split, length: tables[i].length },
    }));
    const state: Parts = { ...rest, series: heads, lanes: { length: 0 } };
    const buffers = [...tables.map((table) => table.encode()), new DataView(new ArrayBuffer(0))];
    const snapshot: Snapshot = { message: { type: "snapshot", seq: 0, state }, buffers };
    const model = new RunModel();
    model.apply(snapshot.message, buffers);
    return typeof state.run.state === "string" && typeof state.totals === "object"
      ? snapshot
      : null;
  } catch {
    return null;
  }
}

/** Whether what was saved is all that there ever will be. */
export function isFinal(saved: unknown): boolean {
  const state: unknown = (saved as Partial<Saved> | undefined)?.run?.state;
  return typeof state === "string" && hasEnded(state);
}
