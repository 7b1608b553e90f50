/** A pretended kernel: a run that exists only as numbers, in the protocol of the real one. */

import type {
  CommandEntry,
  LogEntry,
  Mark,
  Parts,
  Split,
  StreamMessage,
  Worker,
} from "../src/view/model";
import type { Action } from "../src/view/requests";
import type { LinkRate } from "../src/view/workers";
import kernel from "../tests/kernel-commands.json";

/** Those of a real kernel. */
export const actions = kernel.actions as Action[];

export interface Shape {
  workers: number;
  executors: number;
  /** Milestones per second and worker. */
  rate: number;
  /** Whether all workers make each step together; the last one is the slowest. */
  together?: boolean;
}

type Row = number[];

/** float32, little-endian, column after column, as the protocol wants it. */
export function pack(rows: readonly Row[], width: number): DataView {
  const view = new DataView(new ArrayBuffer(4 * width * rows.length));
  for (let column = 0; column < width; column++) {
    rows.forEach((row, i) => {
      view.setFloat32(4 * (column * rows.length + i), row[column], true);
    });
  }
  return view;
}

/** Numbers that look random and are the same every time. */
export function randomly(seed: number): () => number {
  let state = seed;
  return () => {
    state = (1664525 * state + 1013904223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

const TOGETHER = {
  strategy: "allreduce (of gradients, algorithm ring, chosen by auto)",
  ...{ lockstep: true, combiner: null, sync: "bsp", sync_interval: 1 },
};
const SERIES: { name: string; split: Split }[] = [
  ...["loss", "accuracy"].flatMap((name) => [
    { name, split: "training" as const },
    { name, split: "validation" as const },
  ]),
  ...["bytes per sample", "staleness"].map((name) => ({ name, split: "work" as const })),
];
const BATCH = 1000;
const EPOCHS = 10;

export class FakeKernel {
  time = 0;
  state = "running";
  combiner = "dynsgd";
  rate = 0.1;
  error: Parts["run"]["error"] = null;
  /** What of the run is told otherwise. */
  told: Partial<Parts["run"]> = {};
  /** Seconds to go; null is as many as the epochs take. */
  left: number | null = null;
  /** By how much the loss is what it would be. */
  factor = 1;
  warning: Parts["totals"]["warning"] = null;
  /** From when on validation becomes worse. */
  overfits = Infinity;
  readonly marks: Mark[] = [];
  readonly commands: CommandEntry[] = [];
  readonly log: LogEntry[] = [];
  private seq = 0;
  private milestones = 0;
  private readonly random = randomly(7);
  private readonly points: Row[][] = SERIES.map(() => []);
  private readonly lanes: Row[] = [];
  private sent = { points: SERIES.map(() => 0), lanes: 0, marks: 0, commands: 0, log: 0 };
  private readonly workers: Worker[];

  constructor(private readonly shape: Shape) {
    this.workers = Array.from({ length: shape.workers }, (_, i) => ({
      key: `${i % shape.executors}/${i}`,
      ...{
        executor: String(i % shape.executors),
        host: `node-${i % shape.executors}`,
        partition: i,
      },
      ...{ epoch: 0, milestones: 0, samples: 0, samples_per_second: 0, staleness: 0 },
      ...{ staleness_mean: 0, staleness_max: 0, age: 0.1, sent: 0, received: 0, state: "training" },
      ...{ lost: 0, note: "", cpu: null, memory: null },
    }));
  }

  /** Train for some seconds. */
  advance(seconds: number): void {
    const steps = Math.max(1, Math.round(seconds * this.shape.rate));
    for (let step = 0; step < steps; step++) {
      this.time += seconds / steps;
      this.workers.forEach((worker, i) => {
        if (worker.state === "training") this.milestone(worker, i);
      });
      this.point();
    }
    for (const worker of this.workers) {
      worker.samples_per_second = worker.state === "training" ? BATCH * this.shape.rate : 0;
    }
  }

  private milestone(worker: Worker, index: number): void {
    const period = 1 / this.shape.rate;
    const slow = worker.note ? 0.6 : 0.3 * this.random();
    const versions = Math.floor(this.shape.workers * (0.3 + slow + 0.5 * this.random()));
    const staleness = this.shape.together ? 0 : versions;
    const wait = this.wait(index) * period;
    const compute = (0.85 * period - wait) * (0.8 + 0.2 * this.random());
    const end = this.time + 0.1 * period * this.random();
    this.lanes.push([index, end, compute, wait, 0.12 * period, staleness]);
    this.milestones += 1;
    worker.milestones += 1;
    worker.epoch = this.epoch();
    worker.samples += BATCH;
    worker.staleness = staleness;
    worker.staleness_max = Math.max(worker.staleness_max ?? 0, staleness);
    worker.staleness_mean = 0.7 * this.shape.workers;
    worker.cpu = 0.9 + 0.1 * slow;
    worker.memory = 412e6 + 3e6 * index;
    worker.sent = (worker.sent ?? 0) + 1_314_000;
    worker.received = worker.sent;
    if (!this.shape.together) return;
    const waiting = this.wait(index);
    Object.assign(worker, { computing: 0.87 - waiting, exchanging: 0.12, waiting });
  }

  /** Share of a milestone in which a worker waits. */
  private wait(index: number): number {
    if (this.shape.together) return index === this.shape.workers - 1 ? 0.01 : 0.35;
    return this.random() < 0.1 ? 0.3 : 0;
  }

  private point(): void {
    const samples = this.milestones * BATCH;
    const loss = this.factor * (0.25 + 2 * Math.exp(-this.time / 8));
    const at = [this.time, samples, this.time / 6];
    const [training, validation, accuracy, tested, traffic, stale] = this.points;
    training.push([...at, loss * (0.9 + 0.2 * this.random())]);
    // Of ten classes, none is chosen by luck.
    accuracy.push([...at, Math.max(0.1, 1 - loss / 3 + 0.04 * (this.random() - 0.5))]);
    traffic.push([...at, 62.8]);
    stale.push([...at, this.shape.workers * (0.5 + 0.4 * this.random())]);
    if (Math.floor(this.time / 6) <= validation.length) return;
    const worse = Math.max(0, this.time - this.overfits) / 20;
    validation.push([...at, loss * 1.05 + worse]);
    tested.push([...at, Math.max(0.1, 1 - loss / 2.9)]);
  }

  /** The newest of each kind since the last message, or everything. */
  message(type: "snapshot" | "delta"): { content: StreamMessage; buffers: DataView[] } {
    const all = type === "snapshot";
    const since = all
      ? { points: SERIES.map(() => 0), lanes: 0, marks: 0, commands: 0, log: 0 }
      : this.sent;
    const fresh = this.points.map((rows, i) => rows.slice(since.points[i]).slice(-4000));
    const lanes = this.lanes.slice(since.lanes).slice(-2000);
    const state: Parts = {
      ...{ run: this.run(), totals: this.totals(), workers: this.present() },
      series: fresh.map((rows, i) => ({
        ...{ ...SERIES[i], length: rows.length },
      })),
      lanes: { length: lanes.length },
      marks: this.marks.slice(since.marks),
      commands: this.commands.slice(since.commands).map((entry) => ({ ...entry })),
      log: this.log.slice(since.log),
    };
    this.sent = {
      points: this.points.map((rows) => rows.length),
      ...{ lanes: this.lanes.length, marks: this.marks.length },
      ...{ commands: this.commands.length, log: this.log.length },
    };
    this.seq += 1;
    const buffers = [...fresh.map((rows) => pack(rows, 4)), pack(lanes, 6)];
    return { content: { type, seq: this.seq, state }, buffers };
  }

  /** A message gets lost. */
  lose(): void {
    this.seq += 1;
  }

  worker(index: number): Worker {
    return this.workers[index];
  }

  /** None before the run has begun; none trains after its end, or in a pause. */
  private present(): Worker[] {
    if (this.state === "starting") return [];
    const left: Partial<Record<string, Worker["state"]>> = {
      ...{ paused: "waiting", lost: "lost" },
      ...{ finished: "done", stopped: "stopped", failed: "stopped" },
    };
    const others = left[this.state];
    return this.workers.map((worker) => ({
      ...worker,
      ...(worker.state === "training" && others !== undefined ? { state: others } : {}),
    }));
  }

  private run(): Parts["run"] {
    return {
      ...{ id: "run-3", number: 3, name: "first", state: this.state, epochs: EPOCHS },
      elapsed: this.time,
      epoch: this.epoch(),
      ...{ combiner: this.combiner, sync_interval: 10, batch_size: 100, learning_rate: this.rate },
      ...{ has_learning_rate: true, partitions: this.shape.workers, master: "local[2,4]" },
      program: "Keras model, 4 parameters (199,210 values)",
      model_bytes: 796_840,
      ...{ sync: "asp", codec: "fp32", chaos: [], actions },
      ...(this.shape.together ? TOGETHER : {}),
      error: this.error,
      ...this.told,
    };
  }

  private epoch(): number {
    return Math.min(EPOCHS, 1 + Math.floor(this.time / 6));
  }

  private costs(): Parts["totals"]["costs"] {
    const { executor, partition } = this.workers[this.shape.workers - 1];
    return {
      ...{ compute: 0.62, exchange: 0.12, wait: 0.26, sent: 3_100_000, received: 3_100_000 },
      slowest: { executor, partition, waiting: 0.01, others: 0.35 },
    };
  }

  /** Of a ring. */
  private links(): Parts["totals"]["links"] {
    const { workers } = this.shape;
    const rates = this.workers.slice(0, workers).flatMap(({ partition }): LinkRate[] => [
      [partition, (partition + 1) % workers, 3_100_000 - 1000 * partition],
      [partition, -1, partition === 0 ? 800_000 : 400],
    ]);
    return { rates: rates.sort((a, b) => (b[2] ?? 0) - (a[2] ?? 0)), more: 0 };
  }

  private validation(): Record<string, number> {
    const [, loss, , accuracy] = this.points.map((rows) => rows.at(-1)?.[3]);
    return loss === undefined || accuracy === undefined ? {} : { accuracy, loss };
  }

  private best(): Parts["totals"]["best"] {
    const [, loss, , accuracy] = this.points;
    if (loss.length === 0) return {};
    const least = loss.reduce((a, b) => (b[3] < a[3] ? b : a));
    const most = accuracy.reduce((a, b) => (b[3] > a[3] ? b : a));
    const epoch = (row: Row): number => Math.max(1, Math.round(row[2]));
    return {
      accuracy: { value: most[3], epoch: epoch(most) },
      loss: { value: least[3], epoch: epoch(least) },
    };
  }

  private totals(): Parts["totals"] {
    const samples = this.milestones * BATCH;
    const rate = this.shape.rate * this.shape.workers * BATCH;
    return {
      ...{ milestones: this.milestones, samples, samples_total: rate * 6 * EPOCHS },
      // What a run made on the whole is told after its end, too.
      samples_per_second: this.state === "paused" || samples === 0 ? null : rate,
      ...{ loss: this.points[0].at(-1)?.[3] ?? null },
      staleness_mean: samples === 0 ? null : 0.7 * this.shape.workers,
      bytes: this.milestones * 62_800,
      ...{ recent_staleness: 0.7 * this.shape.workers, recent_workers: this.shape.workers },
      costs: this.shape.together ? this.costs() : null,
      links: this.shape.together ? this.links() : null,
      validation: this.validation(),
      ...{ best: this.best(), warning: this.warning },
      eta: ["running", "paused"].includes(this.state)
        ? (this.left ?? Math.max(0, 6 * EPOCHS - this.time))
        : null,
    };
  }
}
