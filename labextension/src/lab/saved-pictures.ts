/**
 * Puts a run's still picture into the outputs that show it live: what is saved in the notebook.
 *
 * While the run trains they get it now and then, so that a notebook whose kernel dies holds what
 * was seen last. Once it has ended they get it for good, and nothing else. The kernel does that itself as long as JupyterLab knows to which output its words belong, which a
 * reload of the page makes it forget.
 */

import type { ICodeCellModel } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

import { hasEnded } from "../view/model";
import type { KernelLink } from "./link";
import type { Hub } from "./hub";
import { type Bundle, RUN_MIME, type RunReference, type RunRow } from "./protocol";

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
    this.timer ??= window.setTimeout(() => {
      this.timer = null;
      this.notebooks.forEach((panel) => {
        void this.settle(panel);
      });
    }, GRACE);
  };

  private async settle(panel: NotebookPanel): Promise<void> {
    const link = this.hub.of(panel.sessionContext);
    // A kernel may be slow to answer: it is not asked twice.
    if (link?.state !== "open" || this.settling.has(panel)) return;
    this.settling.add(panel);
    for (const { outputs, index, run } of live(panel)) {
      const row = link.overview.run(run);
      if (!row) continue;
      const last = hasEnded(row.state);
      if (last || this.isOld(row)) await replace(link, outputs, index, run, last);
    }
    this.settling.delete(panel);
  }

  private isOld({ id, milestones }: RunRow): boolean {
    const now = performance.now();
    const old = milestones > 0 && now - (this.asked.get(id) ?? -Infinity) >= OLD;
    if (old) this.asked.set(id, now);
    return old;
  }
}

type Outputs = ICodeCellModel["outputs"];

interface Live {
  outputs: Outputs;
  index: number;
  run: string;
}

/** The outputs of a notebook that show a run as it trains. */
function live(panel: NotebookPanel): Live[] {
  const found: Live[] = [];
  for (const cell of panel.model?.cells ?? []) {
    if (cell.type !== "code") continue;
    const { outputs } = cell as ICodeCellModel;
    for (let index = 0; index < outputs.length; index++) {
      const run = runOf(outputs, index);
      if (run !== null) found.push({ outputs, index, run });
    }
  }
  return found;
}

function runOf(outputs: Outputs, index: number): string | null {
  const reference = outputs.get(index).data[RUN_MIME] as unknown as RunReference | undefined;
  return reference?.run ?? null;
}

async function replace(
  link: KernelLink,
  outputs: Outputs,
  index: number,
  run: string,
  last: boolean,
): Promise<void> {
  const picture = await link.picture(run);
  // The cell may have been run or cleared in the meantime, or the notebook closed.
  if (picture === null || outputs.isDisposed || index >= outputs.length) return;
  if (runOf(outputs, index) !== run) return;
  // While it trains, beside what names the run to a front end that shows it live.
  const data = last ? picture : { ...(outputs.get(index).data as Bundle), ...picture };
  outputs.set(index, { output_type: "display_data", data, metadata: {} });
}
