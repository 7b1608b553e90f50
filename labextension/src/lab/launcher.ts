/** The launcher's card, which makes a first notebook that works as it is. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { type ICommandPalette, showErrorMessage } from "@jupyterlab/apputils";
import type { ILauncher } from "@jupyterlab/launcher";
import type { INotebookContent } from "@jupyterlab/nbformat";
import type { TranslationBundle } from "@jupyterlab/translation";

import { tosIcon } from "./icon";

export const CREATE = "tos-notebook:create-notebook";

/** `cwd` is asked for the folder where the launcher does not name it. */
export function addLauncher(
  app: JupyterFrontEnd,
  launcher: ILauncher | null,
  trans: TranslationBundle,
  palette: ICommandPalette | null,
  template: INotebookContent,
  cwd: () => string = () => "",
): void {
  app.commands.addCommand(CREATE, {
    label: ({ isPalette }) =>
      isPalette ? trans.__("New TensorOnSpark Notebook") : trans.__("TensorOnSpark notebook"),
    caption: trans.__("Make a notebook that trains a small model on Spark"),
    icon: tosIcon,
    execute: async (args) => {
      try {
        return await create(app, template, typeof args.cwd === "string" ? args.cwd : cwd());
      } catch (reason) {
        const error = reason instanceof Error ? reason : String(reason);
        await showErrorMessage(trans.__("The notebook could not be made"), error);
        return null;
      }
    },
  });
  const category = trans.__("Notebook");
  // Beside the kernels' cards only images have their place.
  const kernelIconUrl = `data:image/svg+xml,${encodeURIComponent(tosIcon.svgstr)}`;
  launcher?.add({ command: CREATE, category, rank: 1, kernelIconUrl });
  palette?.addItem({
    command: CREATE,
    category: trans.__("TensorOnSpark"),
    args: { isPalette: true },
  });
}

async function create(
  app: JupyterFrontEnd,
  template: INotebookContent,
  folder: string,
): Promise<unknown> {
  const { contents } = app.serviceManager;
  const { path } = await contents.newUntitled({ path: folder, type: "notebook" });
  await contents.save(path, { type: "notebook", format: "json", content: template });
  return await app.commands.execute("docmanager:open", { path, factory: "Notebook" });
}
