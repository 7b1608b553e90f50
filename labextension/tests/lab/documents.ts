/** Stand-ins for kernels and notebooks, as far as the plug-in's commands and marks look at them. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { INotebookTracker } from "@jupyterlab/notebook";
import { nullTranslator } from "@jupyterlab/translation";
import { Signal } from "@lumino/signaling";
import { vi } from "vitest";

import { actions } from "../../demo/kernel";
import type { Kernel, Kernels, LinkState } from "../../src/lab/kernels";
import { Overview } from "../../src/lab/overview";
import type { ClusterRow, RunRow } from "../../src/lab/protocol";

export const trans = nullTranslator.load("tos_notebook");

export function row(changes: Partial<RunRow> = {}): RunRow {
  const id = `run-${changes.number ?? 3}`;
  return {
    ...{ id, number: 3, state: "running", epoch: 4, epochs: 10, elapsed: 100, milestones: 9 },
    ...{ samples: 420, samples_total: 1000, samples_per_second: 50, loss: 0.31, eta: 12 },
    ...{ executors: { active: 7, total: 8 }, partitions: 8, master: "local[8]", program: "keras" },
    model_bytes: 400,
    ...{
      combiner: "async",
      actions,
      sync: "asp",
      codec: "fp32",
      sync_interval: 10,
      cell: "cell-1",
    },
    ...{ learning_rate: null, has_learning_rate: false, spark: [], error: null },
    chaos: [],
    ...changes,
  };
}

export class FakeKernel {
  readonly path: string;
  readonly name: string;
  state: LinkState = "open";
  readonly overview = new Overview();
  readonly command = vi.fn<Kernel["command"]>(() => Promise.resolve({ ok: true, text: "" }));
  readonly stopCluster = vi.fn<Kernel["stopCluster"]>(() =>
    Promise.resolve({ ok: true, text: "" }),
  );

  constructor(path = "one.ipynb") {
    this.path = path;
    this.name = path;
  }

  showClusters(...clusters: ClusterRow[]): void {
    const { runs } = this.overview;
    this.overview.apply({ type: "overview", seq: 0, whole: true, cluster: null, runs, clusters });
  }

  show(...runs: RunRow[]): void {
    this.overview.apply({ type: "overview", seq: 0, whole: true, cluster: null, runs });
  }
}

export class FakeKernels {
  private readonly signal = new Signal<Kernels, void>(this as unknown as Kernels);
  readonly changed = this.signal;
  current: FakeKernel | null;

  constructor(readonly all: FakeKernel[]) {
    this.current = all.at(0) ?? null;
  }

  find(path: string): FakeKernel | null {
    return this.all.find((kernel) => kernel.path === path) ?? null;
  }

  [Symbol.iterator](): Iterator<FakeKernel> {
    return this.all[Symbol.iterator]();
  }

  emit(): void {
    this.signal.emit();
  }

  get real(): Kernels {
    return this as unknown as Kernels;
  }
}

export function fakeCell(id: string, source = "", type = "code") {
  const sharedModel = {
    getSource: () => source,
    setSource: (text: string) => {
      source = text;
    },
  };
  const node = document.createElement("div");
  // What the cell itself holds.
  node.append(document.createElement("div"));
  return { node, model: { id, type, sharedModel }, isDisposed: false };
}

export type FakeCell = ReturnType<typeof fakeCell>;

export class FakeNotebook {
  readonly modelChanged = new Signal<this, void>(this);
  readonly cellsChanged = new Signal<this, void>(this);
  model = { cells: { changed: this.cellsChanged } };
  activeCellIndex = 0;
  mode = "edit";
  readonly deselectAll = vi.fn();
  readonly scrollToCell = vi.fn(() => Promise.resolve());

  constructor(readonly widgets: FakeCell[]) {}

  get activeCell(): FakeCell | undefined {
    return this.widgets.at(this.activeCellIndex);
  }
}

export class FakePanel {
  readonly content: FakeNotebook;
  readonly sessionContext: { path: string };

  constructor(
    path: string,
    cells: FakeCell[],
    readonly id = `panel of ${path}`,
  ) {
    this.content = new FakeNotebook(cells);
    this.sessionContext = { path };
  }
}

export class FakeTracker {
  readonly widgetAdded = new Signal<this, FakePanel>(this);
  readonly activeCellChanged = new Signal<this, void>(this);
  currentWidget: FakePanel | null;

  constructor(readonly panels: FakePanel[]) {
    this.currentWidget = panels.at(0) ?? null;
  }

  find(test: (panel: FakePanel) => boolean): FakePanel | undefined {
    return this.panels.find(test);
  }

  forEach(visit: (panel: FakePanel) => void): void {
    this.panels.forEach(visit);
  }

  get real(): INotebookTracker {
    return this as unknown as INotebookTracker;
  }
}

type Options = Parameters<JupyterFrontEnd["commands"]["addCommand"]>[1];

/** What JupyterLab's registry does with commands, as far as it matters here. */
export class Registry {
  readonly all = new Map<string, Options>();
  readonly notifyCommandChanged = vi.fn();
  readonly others = vi.fn();

  addCommand(id: string, options: Options): void {
    this.all.set(id, options);
  }

  isEnabled(id: string, args = {}): boolean {
    return this.all.get(id)?.isEnabled?.(args) ?? true;
  }

  label(id: string, args = {}): string {
    const label = this.all.get(id)?.label;
    return typeof label === "function" ? label(args) : (label ?? "");
  }

  async execute(id: string, args = {}): Promise<unknown> {
    const command = this.all.get(id);
    return command ? await command.execute(args) : (this.others(id, args) as unknown);
  }
}

/** A dialog's result; null if it was cancelled. */
export function answered<T>(value: T) {
  const button = { accept: value !== null } as never;
  return Promise.resolve({ button, isChecked: null, value });
}
