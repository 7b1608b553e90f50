/** What can be drawn beside a run: other runs of its kernel, and those that its notebook holds. */

import type { ICodeCellModel } from "@jupyterlab/cells";
import type { INotebookModel } from "@jupyterlab/notebook";

import type { Snapshot } from "../view/model";
import type { Choice } from "../view/others";
import { t } from "../view/text";
import { nameOf, word } from "../view/words";
import type { Kernel } from "./kernels";
import { RUN_MIME, type RunReference } from "./protocol";
import { snapshotOf } from "./saved";
import { SavedChannel } from "./saved-run";

/** Seconds between two messages of a run that is only drawn beside another. */
const SECONDS = 2;

/** Newest first; a run that the kernel knows is taken from there, if it is in the panel. */
export function othersOf(
  run: string,
  kernel: Kernel | null,
  notebook: INotebookModel | null,
): Choice[] {
  const found = new Map<string, Choice>();
  for (const choice of [...live(kernel), ...saved(notebook)]) {
    const removed = kernel?.overview.run(choice.id)?.hidden === true;
    if (choice.id !== run && !removed && !found.has(choice.id)) found.set(choice.id, choice);
  }
  return [...found.values()];
}

function live(kernel: Kernel | null): Choice[] {
  // What is left of a kernel that is gone tells nothing.
  if (kernel?.state !== "open") return [];
  return kernel.overview.runs.reverse().map((row) => ({
    ...{ id: row.id, name: nameOf(row), detail: word(row.state) },
    open: () => {
      const channel = kernel.channel(row.id);
      channel.pace(SECONDS);
      return channel;
    },
  }));
}

function saved(notebook: INotebookModel | null): Choice[] {
  return snapshots(notebook)
    .reverse()
    .map((snapshot) => {
      const { run } = snapshot.message.state;
      const open = (): SavedChannel => new SavedChannel(snapshot);
      return { id: run.id, name: nameOf(run), detail: t("saved in this notebook"), open };
    });
}

function snapshots(notebook: INotebookModel | null): Snapshot[] {
  const found: Snapshot[] = [];
  for (const cell of notebook?.cells ?? []) {
    if (cell.type !== "code") continue;
    const { outputs } = cell as ICodeCellModel;
    for (let i = 0; i < outputs.length; i++) {
      const reference = outputs.get(i).data[RUN_MIME] as unknown as RunReference | undefined;
      const snapshot = snapshotOf(reference?.saved);
      if (snapshot !== null) found.push(snapshot);
    }
  }
  return found;
}
