/** The commands of palette, menu, toolbar and shortcuts; `schema/plugin.json` says where they are. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Dialog, type ICommandPalette, InputDialog, showDialog } from "@jupyterlab/apputils";
import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";

import { hasEnded } from "../view/model";
import { panelOf, revealCell } from "./cell-marks";
import { tosIcon } from "./icon";
import type { Kernel, Kernels } from "./kernels";
import { stopCluster } from "./panel-cluster";
import type { ClusterRow } from "./protocol";
import { type Options, steering, type Target } from "./steering";

/** Those that steer a run come from the kernel's table; see `steering`. */
export const COMMANDS = {
  connect: "tos-notebook:connect",
  train: "tos-notebook:train",
  openPanel: "tos-notebook:open-panel",
  openRun: "tos-notebook:open-run",
  steerRun: "tos-notebook:steer-run",
  jumpToCell: "tos-notebook:jump-to-cell",
  stopCluster: "tos-notebook:stop-cluster",
} as const;

const CONNECT = "%load_ext tos_notebook\n%tos_connect";

export interface Parts {
  palette: ICommandPalette | null;
  notebooks: INotebookTracker | null;
  trans: TranslationBundle;
  openPanel: () => void;
  openRun: (kernel: Kernel, run: string) => unknown;
  steerRun: (kernel: Kernel, run: string) => void;
  /** Called in gestures that show an interest in runs: the moment to ask for permissions. */
  onInterest?: () => void;
}

type Arguments = Parameters<Options["execute"]>[0];

export function addCommands(app: JupyterFrontEnd, kernels: Kernels, parts: Parts): void {
  const { commands } = app;
  const category = parts.trans.__("TensorOnSpark");
  const all: Record<string, Options> = {
    ...starting(app, kernels, parts),
    ...steering(() => find(kernels, {}), parts.trans),
    ...showing(app, kernels, parts),
    ...ofClusters(kernels, parts),
  };
  for (const [command, options] of Object.entries(all)) {
    commands.addCommand(command, options);
    parts.palette?.addItem({ command, category });
  }
  const known = new Map<string, string>();
  const refresh = (): void => {
    for (const command of Object.keys(all)) {
      const now = `${commands.isEnabled(command)} ${commands.label(command)}`;
      if (known.get(command) !== now) commands.notifyCommandChanged(command);
      known.set(command, now);
    }
  };
  kernels.changed.connect(refresh);
  parts.notebooks?.activeCellChanged.connect(refresh);
}

function starting(app: JupyterFrontEnd, kernels: Kernels, parts: Parts): Record<string, Options> {
  const { notebooks, trans } = parts;
  const front = (): NotebookPanel | null =>
    notebooks && kernels.current && panelOf(notebooks, kernels.current);
  return {
    [COMMANDS.connect]: {
      label: trans.__("Connect to Spark"),
      caption: trans.__("Insert a cell that loads tos_notebook and connects to Spark, and run it"),
      isEnabled: () => kernels.current !== null,
      execute: async () => {
        const panel = front();
        if (panel) await runBelow(panel, CONNECT);
        else if (kernels.current) await inject(app, kernels.current, CONNECT);
      },
    },
    [COMMANDS.train]: {
      label: trans.__("Train This Cell"),
      caption: trans.__("Run the active cell with %1", "%%tos_train"),
      isEnabled: () => front()?.content.activeCell?.model.type === "code",
      execute: async () => {
        parts.onInterest?.();
        const panel = front();
        if (panel) await train(panel, trans);
      },
    },
  };
}

/** By a cell, so that the notebook does it again when it is run from its top. */
export async function runBelow(
  { content, sessionContext }: NotebookPanel,
  source: string,
): Promise<void> {
  NotebookActions.insertBelow(content);
  // New cells may be set to be text.
  if (content.activeCell?.model.type !== "code") NotebookActions.changeCellType(content, "code");
  content.activeCell?.model.sharedModel.setSource(source);
  await NotebookActions.run(content, sessionContext);
}

export async function inject(app: JupyterFrontEnd, { path }: Kernel, code: string): Promise<void> {
  await app.commands.execute("console:inject", { path, code, activate: false });
}

async function train(panel: NotebookPanel, trans: TranslationBundle): Promise<void> {
  const { content, sessionContext } = panel;
  const cell = content.activeCell;
  if (cell?.model.type !== "code") return;
  const source = cell.model.sharedModel.getSource();
  if (!/^\s*%%tos_train\b/.test(source)) {
    const { value } = await InputDialog.getText({
      title: trans.__("Train This Cell"),
      label: trans.__("Training data: an RDD's variable, or those of arrays"),
      placeholder: trans.__("train or x,y"),
      okLabel: trans.__("Train"),
    });
    // The magic takes several names as one word.
    const names = value?.replace(/\s/g, "");
    if (!names || cell.isDisposed) return;
    cell.model.sharedModel.setSource(`%%tos_train --data ${names}\n${source}`);
    content.activeCellIndex = content.widgets.indexOf(cell);
  }
  content.deselectAll();
  await NotebookActions.run(content, sessionContext);
}

function showing(app: JupyterFrontEnd, kernels: Kernels, parts: Parts): Record<string, Options> {
  const { notebooks, trans, openPanel, openRun, steerRun } = parts;
  return {
    [COMMANDS.openPanel]: {
      // A toolbar shows the icon alone.
      label: ({ toolbar }) => (toolbar ? "" : trans.__("Show Runs on Spark")),
      caption: trans.__("Show the runs on Spark"),
      icon: tosIcon,
      execute: () => {
        parts.onInterest?.();
        openPanel();
      },
    },
    [COMMANDS.openRun]: {
      label: trans.__("Open Run in a Tab"),
      isEnabled: (args) => find(kernels, args) !== null,
      execute: (args) => {
        const target = find(kernels, args);
        if (target) openRun(target.kernel, target.row.id);
      },
    },
    [COMMANDS.steerRun]: {
      label: trans.__("Steer Run: Learning Rate, Combiner, Chaos…"),
      caption: trans.__("Open the run in a tab, with everything that can be changed"),
      isEnabled: (args) => {
        const target = find(kernels, args);
        return target?.kernel.state === "open" && !hasEnded(target.row.state);
      },
      execute: (args) => {
        const target = find(kernels, args);
        if (target) steerRun(target.kernel, target.row.id);
      },
    },
    [COMMANDS.jumpToCell]: {
      label: trans.__("Go to the Cell of the Run"),
      isEnabled: (args) => find(kernels, args) !== null,
      execute: (args) => {
        const target = find(kernels, args);
        if (!target) return;
        const panel = notebooks && panelOf(notebooks, target.kernel);
        if (panel) app.shell.activateById(panel.id);
        // The cell may be gone, and a console's are not marked; the run is there.
        if (!notebooks || !revealCell(notebooks, target.kernel, target.row)) {
          openRun(target.kernel, target.row.id);
        }
      },
    },
  };
}

function ofClusters(kernels: Kernels, { trans }: Parts): Record<string, Options> {
  const stoppable = (): { kernel: Kernel; cluster: ClusterRow } | null => {
    const kernel = kernels.current;
    const cluster = kernel?.overview.currentCluster;
    return kernel?.state === "open" && cluster?.active ? { kernel, cluster } : null;
  };
  return {
    [COMMANDS.stopCluster]: {
      label: trans.__("Stop TensorFlow Cluster…"),
      caption: trans.__("End all nodes of the cluster that %1 has started", "%%tos_cluster"),
      isEnabled: () => stoppable() !== null,
      execute: async () => {
        const found = stoppable();
        if (!found) return;
        const { button } = await showDialog({
          title: trans.__("Stop cluster %1?", found.cluster.number),
          body: trans.__("All of its nodes end. Unsaved work is lost."),
          buttons: [
            Dialog.cancelButton({ label: trans.__("Cancel") }),
            Dialog.warnButton({ label: trans.__("Stop") }),
          ],
          defaultButton: 0,
        });
        if (button.accept) await stopCluster(found.kernel, found.cluster.id);
      },
    },
  };
}

/** The run that `path` and `run` name; by default the current one of the kernel in front. */
function find(kernels: Kernels, { path, run }: Arguments): Target | null {
  const kernel = typeof path === "string" ? kernels.find(path) : kernels.current;
  const row = typeof run === "string" ? kernel?.overview.run(run) : kernel?.overview.current;
  return kernel && row ? { kernel, row } : null;
}
