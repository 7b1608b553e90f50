/** Columns of float32 that grow in place and forget their oldest rows. */

export const AXIS_ROWS = ["time", "samples", "epoch", "value"] as const;
export const LANE_ROWS = ["worker", "end", "compute", "wait", "exchange", "staleness"] as const;

/** float32, little-endian, row after row: what the kernel sends. */
function decode(view: DataView | undefined, rows: number, length: number): Float32Array {
  const expected = rows * length;
  if (expected === 0) return new Float32Array(0);
  if (view?.byteLength !== 4 * expected) {
    const came = view ? `${view.byteLength} bytes` : "none";
    throw new RangeError(
      `Expected a buffer of ${4 * expected} bytes from the kernel, got ${came}.`,
    );
  }
  const values = new Float32Array(expected);
  for (let i = 0; i < expected; i++) values[i] = view.getFloat32(4 * i, true);
  return values;
}

export class Table {
  length = 0;
  private columns: Float32Array[];

  constructor(
    private readonly names: readonly string[],
    private readonly limit: number,
  ) {
    this.columns = names.map(() => new Float32Array(64));
  }

  /** Of columns as long as each other. */
  static of(names: readonly string[], columns: readonly (readonly number[])[]): Table {
    const { length } = columns[0];
    const table = new Table(names, Math.max(1, length));
    table.push(
      columns.map((column) => Float32Array.from(column)),
      length,
    );
    return table;
  }

  /** The values of one row of the kernel's buffer, oldest first; valid until the next append. */
  column(index: number): Float32Array {
    return this.columns[index].subarray(0, this.length);
  }

  append(view: DataView | undefined, length: number): void {
    const values = decode(view, this.names.length, length);
    this.push(
      this.names.map((_, i) => values.subarray(i * length, (i + 1) * length)),
      length,
    );
  }

  /** Append another table's rows, or those whose value in column `by` is kept. */
  concat(other: Table, keep: (value: number) => boolean = () => true, by = 0): void {
    const mask = other.column(by);
    const columns = this.names.map((_, i) => other.column(i).filter((_, row) => keep(mask[row])));
    this.push(columns, columns[0].length);
  }

  /** What `append` takes. */
  encode(): DataView {
    const { length } = this;
    const view = new DataView(new ArrayBuffer(4 * length * this.names.length));
    this.columns.forEach((column, i) => {
      for (let row = 0; row < length; row++)
        view.setFloat32(4 * (i * length + row), column[row], true);
    });
    return view;
  }

  private push(columns: Float32Array[], added: number): void {
    const drop = Math.max(0, Math.min(this.length, this.length + added - this.limit));
    const skip = Math.max(0, added - this.limit);
    const kept = this.length - drop;
    const length = kept + added - skip;
    this.columns = this.columns.map((old, i) => {
      let column = old;
      if (length > old.length) {
        column = new Float32Array(Math.min(this.limit, 2 ** Math.ceil(Math.log2(length))));
        column.set(old.subarray(drop, this.length));
      } else if (drop > 0) {
        column.copyWithin(0, drop, this.length);
      }
      column.set(columns[i].subarray(skip), kept);
      return column;
    });
    this.length = length;
  }
}

export const MAX_LANES = 8192;

/** A snapshot holds fewer milestones than we may have seen: keep those before its first. */
export function withOlder(old: Table, fresh: Table): Table {
  if (fresh.length === 0) return old;
  const ends = fresh.column(LANE_ROWS.indexOf("end"));
  const first = ends.reduce((a, b) => Math.min(a, b), Infinity);
  const merged = new Table(LANE_ROWS, MAX_LANES);
  merged.concat(old, (end) => end < first, LANE_ROWS.indexOf("end"));
  merged.concat(fresh);
  return merged;
}
