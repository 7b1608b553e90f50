/**
 * The state of one run as the kernel streams it. No DOM: shared with other front ends.
 *
 * A snapshot replaces everything, a delta adds to it. Deltas are numbered; where one is missing
 * `apply` says "gap", and the caller asks for a snapshot.
 */

import { AXIS_ROWS, LANE_ROWS, MAX_LANES, Table, withOlder } from "./buffers";
import { MAX_COMMANDS, mergeCommands } from "./entries";
import type { Action, When } from "./requests";
import type { Costs, Links, Shard, Worker } from "./workers";

export { AXIS_ROWS, LANE_ROWS, MAX_LANES, Table };
export type { Shard, Worker };

export interface WorkerError {
  message: string;
  where: string | null;
  frames: string[];
  rest: string | null;
}

export interface RunInfo {
  id: string;
  number: number;
  name?: string | null;
  state: string;
  epoch: number;
  epochs: number;
  elapsed: number;
  /** How workers exchange what they learn, in words; not in documents of older versions. */
  strategy?: string;
  /** All workers make each step together, so that nothing is stale; only where it is said. */
  lockstep?: boolean;
  /** null where the strategy has none. */
  combiner: string | null;
  sync: string;
  codec: string;
  sync_interval: number | null;
  batch_size: number | null;
  /** What was set; null for the program's own. */
  learning_rate: number | null;
  /** The program's own, where it is known and stays as it is. */
  own_rate?: number | null;
  /** The one before the present one; null if the kernel has seen none. */
  rate_before?: number | null;
  has_learning_rate: boolean;
  /** Whether it evaluates validation data; not in documents of older versions. */
  validates?: boolean;
  partitions: number;
  master: string;
  program: string;
  /** Of the parameters, as they are. */
  model_bytes: number;
  /** The commands it obeys, read by `actionsOf`; not in documents of older versions. */
  actions?: Action[];
  /** Rules in force, in words; empty if nothing goes wrong on purpose. */
  chaos: string[];
  /** What it has waited for too long, and what to look at; not in documents of older versions. */
  waits?: string[];
  /** What was asked for and waits for the end of the epoch; not in documents of older versions. */
  pending?: string[];
  /** Who was lost, and what comes of it; not in documents of older versions. */
  lost?: string[];
  /** What has the parameters, if the driver has not; not in documents of older versions. */
  shards?: Shard[];
  /** Why it was stopped; not in documents of older versions. */
  reason?: string | null;
  error: WorkerError | null;
}

/** A run learns no more, or not what it should. */
export interface Concern {
  kind: "diverging" | "overfitting";
  epoch: number | null;
  factor: number | null;
}

export interface Totals {
  milestones: number;
  samples: number;
  samples_total: number | null;
  samples_per_second: number | null;
  /** The latest evaluation of the model that the user gets; not in documents of older versions. */
  validation?: Record<string, number | null>;
  /** By metric, where its name tells what is better; not in documents of older versions. */
  best?: Record<string, { value: number | null; epoch: number }>;
  warning?: Concern | null;
  loss: number | null;
  /** Of training, over the same milestones as the loss; not in documents of older versions. */
  metrics?: Record<string, number | null>;
  staleness_mean: number | null;
  /** Of late, as is the number of workers that trained at once. */
  recent_staleness: number | null;
  recent_workers: number | null;
  bytes: number | null;
  /** null where workers do not make each step together; not in documents of older versions. */
  costs?: Costs | null;
  /** As `costs`, and null where nothing is known of links. */
  links?: Links | null;
  eta: number | null;
}

export interface Mark {
  time: number;
  worker: number;
  kind: "retry" | "lost" | "failed";
  text: string;
}

export type Stage = "asked" | "in force" | "refused";

export interface CommandEntry {
  time: number;
  command: string;
  /** What becomes what: settings by their names, in words. */
  changes: Record<string, string>;
  /** Anything else that is worth saying, such as why it was refused. */
  detail: string;
  stage: Stage;
  when: When;
  /** When it came into force or was refused; not in documents of older versions. */
  since?: number | null;
  /** What sends it again and again, such as a callback; null if a person does. */
  series?: string | null;
}

export interface LogEntry {
  time: number;
  level: "info" | "warning" | "error";
  text: string;
}

/** Of what was trained, of the model that the user gets, or of the work itself. */
export type Split = "training" | "validation" | "work";

interface SeriesHead {
  name: string;
  split: Split;
  length: number;
}

export interface Series {
  name: string;
  split: Split;
  points: Table;
}

/** What a snapshot carries; in a delta every part is optional, and `run` lacks what stays. */
export interface Parts {
  run: RunInfo;
  totals: Totals;
  series: SeriesHead[];
  workers: Worker[];
  lanes: { length: number };
  marks: Mark[];
  commands: CommandEntry[];
  log: LogEntry[];
}

interface SnapshotMessage {
  type: "snapshot";
  seq: number;
  state: Parts;
}

type Delta = Partial<Omit<Parts, "run">> & { run?: Partial<RunInfo> };

export type StreamMessage = SnapshotMessage | { type: "delta"; seq: number; state: Delta };

export interface Snapshot {
  message: SnapshotMessage;
  buffers: DataView[];
}

export type Outcome = "applied" | "gap" | "old";

export const MAX_POINTS = 8000;
const MAX_MARKS = 200;
const MAX_LOG = 200;

/** A run is lost when its kernel is gone: only who has lost it can say so. */
const ENDED = new Set(["finished", "stopped", "failed", "lost"]);

/** Whether a run in this state will never train again. */
export function hasEnded(state: string): boolean {
  return ENDED.has(state);
}

type Place = Pick<RunInfo, "state" | "epoch" | "epochs"> &
  Pick<Totals, "samples" | "samples_total">;

/** How much of the training is done, 0 to 1; by epochs where the size of the data is unknown. */
export function share({ state, epoch, epochs, samples, samples_total }: Place): number {
  if (state === "finished") return 1;
  const done = samples_total ? samples / samples_total : (epoch - 1) / (epochs || 1);
  return Math.min(1, Math.max(0, done));
}

export class RunModel {
  run: RunInfo | null = null;
  totals: Totals | null = null;
  series: Series[] = [];
  workers: Worker[] = [];
  lanes = new Table(LANE_ROWS, MAX_LANES);
  marks: Mark[] = [];
  commands: CommandEntry[] = [];
  log: LogEntry[] = [];
  private seq = -1;

  /** Take one message; says whether it fitted, was late, or shows that others were lost. */
  apply(message: StreamMessage, buffers: readonly DataView[]): Outcome {
    if (message.type === "snapshot") {
      this.replace(message.state, buffers);
    } else if (this.run === null || message.seq > this.seq + 1) {
      return "gap";
    } else if (message.seq <= this.seq) {
      return "old";
    } else if (!this.append(message.state, buffers)) {
      return "gap";
    }
    this.seq = message.seq;
    return "applied";
  }

  /** All that is known, as the kernel would tell it; null before the kernel has told anything. */
  snapshot(): Snapshot | null {
    const { run, totals, workers, marks, commands, log } = this;
    if (run === null || totals === null) return null;
    const series = this.series.map(({ name, split, points: { length } }) => ({
      name,
      split,
      length,
    }));
    const lanes = { length: this.lanes.length };
    const state = { run, totals, series, workers, lanes, marks, commands, log };
    const buffers = [...this.series.map(({ points }) => points), this.lanes].map((table) =>
      table.encode(),
    );
    return { message: { type: "snapshot", seq: this.seq, state }, buffers };
  }

  /** The kernel is gone, and the run with it. Whatever the kernel tells later takes that back. */
  lose(): void {
    if (this.run === null || hasEnded(this.run.state)) return;
    this.run = { ...this.run, state: "lost" };
    if (this.totals) this.totals = { ...this.totals, eta: null, samples_per_second: null };
    this.workers = this.workers.map((worker) => (worker.state === "done" ? worker : gone(worker)));
  }

  private replace(state: Parts, buffers: readonly DataView[]): void {
    const sameRun = this.run?.id === state.run.id;
    const kept = sameRun && isPrefix(this.workers, state.workers) ? this.lanes : null;
    this.series = state.series.map((head, i) => {
      const points = new Table(AXIS_ROWS, MAX_POINTS);
      points.append(buffers[i], head.length);
      return { name: head.name, split: head.split, points };
    });
    const lanes = new Table(LANE_ROWS, MAX_LANES);
    lanes.append(buffers[state.series.length], state.lanes.length);
    this.lanes = kept === null ? lanes : withOlder(kept, lanes);
    this.run = state.run;
    this.totals = state.totals;
    this.workers = state.workers;
    this.marks = state.marks.slice(-MAX_MARKS);
    this.commands = state.commands.slice(-MAX_COMMANDS);
    this.log = state.log.slice(-MAX_LOG);
  }

  /** Returns false if the series are not the ones we have, or outgrew us: then a snapshot helps. */
  private append(delta: Delta, buffers: readonly DataView[]): boolean {
    const heads = delta.series ?? [];
    const fits = heads.every((head, i) => {
      if (i >= this.series.length) return true;
      const { name, split, points } = this.series[i];
      return name === head.name && split === head.split && points.length + head.length < MAX_POINTS;
    });
    if (!fits) return false;
    heads.forEach((head, i) => {
      this.series[i] ??= { ...head, points: new Table(AXIS_ROWS, MAX_POINTS) };
      this.series[i].points.append(buffers[i], head.length);
    });
    if (delta.lanes) this.lanes.append(buffers[heads.length], delta.lanes.length);
    if (this.run) this.run = { ...this.run, ...delta.run };
    this.totals = delta.totals ?? this.totals;
    this.workers = delta.workers ?? this.workers;
    if (delta.marks) this.marks = [...this.marks, ...delta.marks].slice(-MAX_MARKS);
    if (delta.log) this.log = [...this.log, ...delta.log].slice(-MAX_LOG);
    if (delta.commands) this.commands = mergeCommands(this.commands, delta.commands);
    return true;
  }
}

function gone(worker: Worker): Worker {
  return { ...worker, state: "lost", samples_per_second: null, age: null, note: "" };
}

function isPrefix(old: Worker[], fresh: Worker[]): boolean {
  return old.length <= fresh.length && old.every((worker, i) => worker.key === fresh[i].key);
}
