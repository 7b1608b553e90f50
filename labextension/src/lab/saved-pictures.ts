/**
 * Puts the still picture of a run, or of a TensorFlow cluster, into the outputs that show it live:
 * what is saved in the notebook.
 *
 * While a run trains they get it when the notebook is saved: the kernel's last picture, and what the
 * page shows at that moment. They also get it now and then, so that a page which is copied, or dies,
 * holds what was seen last. When the kernel is gone, they get what the page has shown. After the end
 * they get the picture for good, and nothing else. The kernel does that itself as long as JupyterLab
 * knows to which output its words belong, which a reload of the page makes it forget.
 */

import type { ICodeCellModel } from "@jupyterlab/cells";
import type { IMimeBundle } from "@jupyterlab/nbformat";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

import { hasEnded, type Snapshot } from "../view/model";
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
  type Shown,
} from "./protocol";

/** Milliseconds in which the kernel's own words may arrive. */
const GRACE = 1000;

/** Milliseconds after which the notebook gets the picture of a run that trains. */
export const OLD = 30_000;

/** Milliseconds between two pictures that wait for a save: fewer than between two overviews. */
export const FRESH = 700;

/** A kernel rests so many times as long as it took for a picture. */
const REST = 2;

export class SavedPictures {
  private readonly settling = new WeakSet<NotebookPanel>();
  /** The last picture of each run that trains, for the notebook's next save. */
  private readonly latest = new Map<string, Latest>();
  private timer: number | null = null;

  constructor(
    private readonly hub: Hub,
    private readonly notebooks: INotebookTracker,
  ) {
    hub.changed.connect(this.soon);
    const follow = (panel: NotebookPanel): void => {
      panel.context.saveState.connect((_, state) => {
        // JupyterLab reads the notebook after this, and before anything else happens.
        if (state === "started") this.refresh(panel);
      });
    };
    notebooks.forEach(follow);
    notebooks.widgetAdded.connect((_, panel) => {
      follow(panel);
    });
  }

  private readonly soon = (): void => {
    this.notebooks.forEach((panel) => {
      const link = this.hub.of(panel.sessionContext);
      // At once: a user may save before anything else happens.
      if (link?.state === "lost") this.keepShown(panel);
      else if (link?.state === "open") this.ask(link, panel);
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
    for (const place of live(panel)) {
      if (!("run" in place.shown)) continue;
      const { run } = place.shown;
      const picture = this.latest.get(run)?.bundle ?? {};
      const snapshot = this.hub.shown(run);
      if (snapshot !== null) add(place, { ...picture, [RUN_MIME]: namedWith(place, snapshot) });
    }
  }

  /** The notebook is about to be saved: let its runs be as they are seen now. */
  private refresh(panel: NotebookPanel): void {
    if (this.hub.of(panel.sessionContext)?.state !== "open") return;
    for (const place of live(panel)) if ("run" in place.shown) this.renew(place, place.shown.run);
  }

  private renew(place: Live, run: string): void {
    const snapshot = this.hub.shown(run);
    const picture = this.latest.get(run)?.bundle ?? {};
    // An end is put there for good, by the kernel's own picture, which is on its way.
    if (snapshot === null || hasEnded(snapshot.message.state.run.state)) add(place, picture);
    else add(place, { ...picture, [RUN_MIME]: namedWith(place, snapshot) });
  }

  /** Have a picture of each run that trains at hand. */
  private ask(link: KernelLink, panel: NotebookPanel): void {
    for (const { shown } of live(panel)) {
      if (!("run" in shown)) continue;
      const row = link.overview.run(shown.run);
      if (row !== null && row.milestones > 0 && !hasEnded(row.state)) void this.take(link, shown);
      else this.latest.delete(shown.run);
    }
  }

  private async take(link: KernelLink, shown: RunShown): Promise<void> {
    const began = performance.now();
    const last = this.latest.get(shown.run);
    if (last !== undefined && (last.pending || began < last.next)) return;
    // The first one is put at once.
    const first = { put: -OLD, bundle: null };
    const latest: Latest = { ...first, ...last, pending: true, next: began };
    this.latest.set(shown.run, latest);
    const bundle = await link.picture(shown).catch(() => null);
    const took = performance.now() - began;
    latest.pending = false;
    latest.next = began + Math.max(FRESH, (1 + REST) * took);
    if (bundle === null || isFinal((bundle[RUN_MIME] as RunReference | undefined)?.saved)) return;
    latest.bundle = bundle;
  }

  private async settle(panel: NotebookPanel): Promise<void> {
    const link = this.hub.of(panel.sessionContext);
    // A kernel may be slow to answer: it is not asked twice.
    if (link?.state !== "open" || this.settling.has(panel)) return;
    this.settling.add(panel);
    for (const place of live(panel)) {
      if (isOver(link.overview, place.shown)) await replace(link, place);
      else if ("run" in place.shown && this.isOld(place.shown.run))
        this.renew(place, place.shown.run);
    }
    this.settling.delete(panel);
  }

  private isOld(run: string): boolean {
    const latest = this.latest.get(run);
    if (!latest?.bundle) return false;
    const old = performance.now() - latest.put >= OLD;
    if (old) latest.put = performance.now();
    return old;
  }
}

interface RunShown {
  run: string;
}

interface Latest {
  bundle: Bundle | null;
  /** Whether the kernel was asked, and has not answered. */
  pending: boolean;
  /** When it may be asked again. */
  next: number;
  /** When the notebook got it last without a save. */
  put: number;
}

function isOver(overview: Overview, shown: Shown): boolean {
  // Each picture of a cluster would build its widget again: it gets none before its end.
  if ("cluster" in shown)
    return overview.clusters.find(({ id }) => id === shown.cluster)?.active === false;
  const row = overview.run(shown.run);
  return row !== null && hasEnded(row.state);
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

/** Put something beside what names the run to a front end that shows it live. */
function add({ outputs, index }: Live, data: Partial<Bundle>): void {
  put(outputs, index, { ...(outputs.get(index).data as Bundle), ...data });
}

function namedWith({ outputs, index }: Live, snapshot: Snapshot): RunReference {
  const { data } = outputs.get(index);
  return { ...(data[RUN_MIME] as unknown as RunReference), saved: savedOf(snapshot) };
}

/** Put the picture of something that has ended. */
async function replace(link: KernelLink, { outputs, index, shown }: Live): Promise<void> {
  const picture = await link.picture(shown);
  // The cell may have been run or cleared in the meantime, or the notebook closed.
  if (picture === null || outputs.isDisposed || index >= outputs.length) return;
  const now = shownIn(outputs, index);
  if (now !== null && idOf(now) === idOf(shown)) put(outputs, index, picture);
}
