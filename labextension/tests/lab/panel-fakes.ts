/** Kernels that a test can hold in its hand, for the panel and the run's tab. */

import type { ISessionContext } from "@jupyterlab/apputils";
import { Signal } from "@lumino/signaling";
import { vi } from "vitest";

import { actions } from "../../demo/kernel";
import type { Kernel, Kernels, LinkState, RunChannel } from "../../src/lab/kernels";
import { Overview } from "../../src/lab/overview";
import type { Cluster, ClusterRow, RunRow } from "../../src/lab/protocol";
import type { Listener } from "../../src/view/channel";

export const CLUSTER: Cluster = {
  ...{ master: "spark://head:7077", application: "notebook", executors: 8, cores: 32 },
  ...{ ui: "http://10.0.0.1:4040", versions: {} },
};

export function row(number: number, changes: Partial<RunRow> = {}): RunRow {
  return {
    ...{ id: `r${number}`, number, state: "running", epoch: 4, epochs: 10, elapsed: 60 },
    ...{ milestones: 50, samples: 100, samples_total: 400, samples_per_second: 12_345 },
    ...{ loss: 0.31, eta: 10, executors: { active: 7, total: 8 }, partitions: 8 },
    ...{
      combiner: "dynsgd",
      actions,
      sync: "asp",
      codec: "fp32",
      sync_interval: 10,
      learning_rate: 0.1,
    },
    ...{
      has_learning_rate: true,
      program: "Keras model",
      model_bytes: 400,
      master: "spark://head:7077",
    },
    ...{ spark: [2.3, 0.5, 0.31], error: null, cell: null },
    chaos: [],
    ...changes,
  };
}

export function clusterRow(number: number, changes: Partial<ClusterRow> = {}): ClusterRow {
  return {
    ...{ id: `c${number}`, number, state: "running", active: true, running: 2, nodes: 3 },
    ...{ error: null, cell: "cell-1" },
    ...changes,
  };
}

export class FakeChannel implements RunChannel {
  listener: Listener | null = null;
  readonly open = vi.fn((listener: Listener) => {
    this.listener = listener;
    return Promise.resolve();
  });
  readonly hello = vi.fn();
  readonly command = vi.fn();
  readonly close = vi.fn();
  readonly pace = vi.fn<(seconds: number) => void>();
}

export class FakeKernel implements Kernel {
  state: LinkState = "open";
  overview = new Overview();
  context: ISessionContext | null = {} as ISessionContext;
  readonly changed = new Signal<this, void>(this);
  readonly opened = new FakeChannel();
  readonly command = vi.fn<Kernel["command"]>(() => Promise.resolve({ ok: true, text: "soon" }));
  readonly hide = vi.fn<Kernel["hide"]>();
  readonly stopCluster = vi.fn<Kernel["stopCluster"]>(() =>
    Promise.resolve({ ok: true, text: "" }),
  );
  readonly picture = vi.fn(() => Promise.resolve(null));
  readonly channel = vi.fn(() => this.opened);
  private seq = 0;

  constructor(
    readonly name = "first.ipynb",
    readonly path = `work/${name}`,
  ) {}

  /** A whole overview: what is not named is gone. */
  tell(runs: RunRow[], cluster: Cluster | null = CLUSTER, clusters?: ClusterRow[]): void {
    this.seq += 1;
    this.overview.apply({ type: "overview", seq: this.seq, whole: true, cluster, runs, clusters });
    this.changed.emit();
  }

  become(state: LinkState): void {
    this.state = state;
    this.changed.emit();
  }
}

export class FakeKernels implements Kernels {
  readonly changed = new Signal<this, void>(this);
  readonly current = null;
  constructor(public all: FakeKernel[] = []) {}

  [Symbol.iterator](): Iterator<Kernel> {
    return this.all[Symbol.iterator]();
  }

  find(path: string): Kernel | null {
    return this.all.find((kernel) => kernel.path === path) ?? null;
  }
}
