/** What the kernel tells of workers: each of them, and all that make each step together. */

export interface Worker {
  key: string;
  executor: string;
  host: string;
  partition: number;
  epoch: number;
  milestones: number;
  samples: number;
  samples_per_second: number | null;
  /** Shares of its time of late; not in documents of older versions. */
  computing?: number | null;
  exchanging?: number | null;
  waiting?: number | null;
  staleness: number | null;
  staleness_mean: number | null;
  staleness_max: number | null;
  age: number | null;
  /** Cores that its process keeps busy, and bytes of its memory; not in older documents. */
  cpu?: number | null;
  memory?: number | null;
  /** Bytes to other workers or to the driver, and from there; not in documents of older versions. */
  sent?: number | null;
  received?: number | null;
  state: "training" | "waiting" | "lost" | "failed" | "stopped" | "done" | "serving";
  lost: number;
  note: string;
}

/** A shard of the parameters: a worker without what only workers have. */
export interface Shard extends Omit<Worker, "partition" | "epoch"> {
  partition: null;
  epoch: null;
}

/** What workers that make each step together do of late, on average. */
export interface Costs {
  /** Shares of their time. */
  compute: number | null;
  exchange: number | null;
  wait: number | null;
  /** Bytes a second, of one worker. */
  sent: number | null;
  received: number | null;
  /** For whom the others wait, and the shares of their time in which they do. */
  slowest: {
    executor: string;
    partition: number;
    waiting: number | null;
    others: number | null;
  } | null;
}

/** From which partition, to which one, and bytes a second; -1 is the driver. */
export type LinkRate = [source: number, target: number, rate: number | null];

/** What links carry of late. */
export interface Links {
  /** The busiest first. */
  rates: LinkRate[];
  /** How many links there are besides. */
  more: number;
}
