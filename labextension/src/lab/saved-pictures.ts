/**
 * Puts the still picture of a run that has ended into the outputs that showed it live.
 *
 * The kernel does that itself as long as JupyterLab knows to which output its words belong, which a
 * reload of the page makes it forget.
 */

import type { ICodeCellModel } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";

import { hasEnded } from "../view/model";
import type { KernelLink } from "./link";
import type { Hub } from "./hub";
import { RUN_MIME, type RunReference } from "./protocol";

/** Milliseconds in which the kernel's own words may arrive. */
const GRACE = 1000;

export class SavedPictures {
  private readonly settling = new WeakSet<NotebookPanel>();
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
      if (row && hasEnded(row.state)) await replace(link, outputs, index, run);
    }
    this.settling.delete(panel);
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
): Promise<void> {
  const picture = await link.picture(run);
  // The cell may have been run or cleared in the meantime, or the notebook closed.
  if (picture === null || outputs.isDisposed || index >= outputs.length) return;
  if (runOf(outputs, index) !== run) return;
  outputs.set(index, { output_type: "display_data", data: picture, metadata: {} });
}
