/**
 * Puts the still picture of a run, or of a TensorFlow cluster, into the outputs that show it live:
 * what is saved in the notebook.
 *
 * While a run trains they get it now and then, so that a notebook whose kernel dies holds what was
 * seen last. When the kernel is gone, they get what the page has shown. After the end they get it
 * for good, and nothing else. The kernel does that itself as long as JupyterLab knows to which
 * output its words belong, which a reload of the page makes it forget.
 */

import type { ICodeCellModel } from "@jupyterlab/cells";
import type { IMimeBundle } from "@jupyterlab/nbformat";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

import { hasEnded } from "../view/model";
import type { KernelLink } from "./link";
import type { Hub } from "./hub";
import type { Overview } from "./overview";
import { isFinal, savedOf } from "./saved";
import {
  type Bundle,
  CLUSTER_MIME,
  type ClusterReference,
  RUN_MIME,
  type RunReference,
  type RunRow,
  type Shown,
} from "./protocol";

/** Milliseconds in which the kernel's own words may arrive. */
const GRACE = 1000;

/** Milliseconds after which the picture of a run that trains is old. */
export const OLD = 30_000;

export class SavedPictures {
  private readonly settling = new WeakSet<NotebookPanel>();
  /** When each run was asked for its picture last. */
  private readonly asked = new Map<string, number>();
  private timer: number | null = null;

  constructor(
    private readonly hub: Hub,
    private readonly notebooks: INotebookTracker,
  ) {
    hub.changed.connect(this.soon);
  }

  private readonly soon = (): void => {
    // At once: a user may save before anything else happens.
    this.notebooks.forEach((panel) => {
      if (this.hub.of(panel.sessionContext)?.state === "lost") this.keepShown(panel);
    });
    this.timer ??= window.setTimeout(() => {
      this.timer = null;
      this.notebooks.forEach((panel) => {
        void this.settle(panel);
      });
    }, GRACE);
  };

  /** The kernel tells nothing more: what will be saved is what the page has shown of its runs. */
  private keepShown(panel: NotebookPanel): void {
    for (const { outputs, index, shown } of live(panel)) {
      const snapshot = "run" in shown ? this.hub.shown(shown.run) : null;
      if (snapshot === null) continue;
      const { data } = outputs.get(index);
      const run = { ...(data[RUN_MIME] as unknown as RunReference), saved: savedOf(snapshot) };
      put(outputs, index, { ...data, [RUN_MIME]: run });
    }
  }

  private async settle(panel: NotebookPanel): Promise<void> {
    const link = this.hub.of(panel.sessionContext);
    // A kernel may be slow to answer: it is not asked twice.
    if (link?.state !== "open" || this.settling.has(panel)) return;
    this.settling.add(panel);
    for (const place of live(panel)) {
      const due = this.due(link.overview, place.shown);
      if (due !== null) await replace(link, place, due === "last");
    }
    this.settling.delete(panel);
  }

  private due(overview: Overview, shown: Shown): "last" | "meanwhile" | null {
    if ("cluster" in shown) {
      const row = overview.clusters.find(({ id }) => id === shown.cluster);
      // Each picture would build its widget anew: it gets none meanwhile.
      return row?.active === false ? "last" : null;
    }
    const row = overview.run(shown.run);
    if (row === null) return null;
    if (hasEnded(row.state)) return "last";
    return this.isOld(row) ? "meanwhile" : null;
  }

  private isOld({ id, milestones }: RunRow): boolean {
    const now = performance.now();
    const old = milestones > 0 && now - (this.asked.get(id) ?? -Infinity) >= OLD;
    if (old) this.asked.set(id, now);
    return old;
  }
}

function idOf(shown: Shown): string {
  return "run" in shown ? shown.run : shown.cluster;
}

type Outputs = ICodeCellModel["outputs"];

interface Live {
  outputs: Outputs;
  index: number;
  shown: Shown;
}

/** The outputs of a notebook that show something as it runs. */
function live(panel: NotebookPanel): Live[] {
  const found: Live[] = [];
  for (const cell of panel.model?.cells ?? []) {
    if (cell.type !== "code") continue;
    const { outputs } = cell as ICodeCellModel;
    for (let index = 0; index < outputs.length; index++) {
      const shown = shownIn(outputs, index);
      if (shown !== null) found.push({ outputs, index, shown });
    }
  }
  return found;
}

function shownIn(outputs: Outputs, index: number): Shown | null {
  const { data } = outputs.get(index);
  // No more than the name: what else stands there was perhaps written by somebody else.
  const run = data[RUN_MIME] as unknown as RunReference | undefined;
  // The picture of a run that has ended stays as it is.
  if (run !== undefined) return isFinal(run.saved) ? null : { run: run.run };
  const cluster = (data[CLUSTER_MIME] as unknown as ClusterReference | undefined)?.cluster;
  return cluster === undefined ? null : { cluster };
}

function put(outputs: Outputs, index: number, data: object): void {
  outputs.set(index, { output_type: "display_data", data: data as IMimeBundle, metadata: {} });
}

async function replace(
  link: KernelLink,
  { outputs, index, shown }: Live,
  last: boolean,
): Promise<void> {
  const picture = await link.picture(shown);
  // The cell may have been run or cleared in the meantime, or the notebook closed.
  if (picture === null || outputs.isDisposed || index >= outputs.length) return;
  const now = shownIn(outputs, index);
  if (now === null || idOf(now) !== idOf(shown)) return;
  // While it trains, beside what names the run to a front end that shows it live.
  const ended = last || isFinal((picture[RUN_MIME] as RunReference | undefined)?.saved);
  const data = ended ? picture : { ...(outputs.get(index).data as Bundle), ...picture };
  put(outputs, index, data);
}
