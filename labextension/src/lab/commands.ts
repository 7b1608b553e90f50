/** The commands of palette, menu, toolbar and shortcuts; `schema/plugin.json` says where they are. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import {
  Dialog,
  type ICommandPalette,
  InputDialog,
  Notification,
  showDialog,
} from "@jupyterlab/apputils";
import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";

import { actionsOf, type Ask, STOP, TOGGLE, unavailable } from "../view/requests";
import { panelOf, revealCell } from "./cell-marks";
import { tosIcon } from "./icon";
import type { Kernel, Kernels } from "./kernels";
import type { RunRow } from "./protocol";

export const COMMANDS = {
  connect: "tos-notebook:connect",
  train: "tos-notebook:train",
  pauseResume: "tos-notebook:pause-resume",
  stop: "tos-notebook:stop",
  repartition: "tos-notebook:repartition",
  swapCombiner: "tos-notebook:swap-combiner",
  openPanel: "tos-notebook:open-panel",
  openRun: "tos-notebook:open-run",
  jumpToCell: "tos-notebook:jump-to-cell",
} as const;

const CONNECT = "%load_ext tos_notebook\n%tos_connect";

export interface Parts {
  palette: ICommandPalette | null;
  notebooks: INotebookTracker | null;
  trans: TranslationBundle;
  openPanel: () => void;
  openRun: (kernel: Kernel, run: string) => void;
  /** Called in gestures that show an interest in runs: the moment to ask for permissions. */
  onInterest?: () => void;
}

type Options = Parameters<JupyterFrontEnd["commands"]["addCommand"]>[1];
type Arguments = Parameters<Options["execute"]>[0];

interface Target {
  kernel: Kernel;
  row: RunRow;
}

export function addCommands(app: JupyterFrontEnd, kernels: Kernels, parts: Parts): void {
  const { commands } = app;
  const category = parts.trans.__("TensorOnSpark");
  const all: Record<string, Options> = {
    ...starting(app, kernels, parts),
    ...steering(kernels, parts.trans),
    ...showing(app, kernels, parts),
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
        if (panel) await connect(panel);
        else if (kernels.current) await inject(app, kernels.current);
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
async function connect({ content, sessionContext }: NotebookPanel): Promise<void> {
  NotebookActions.insertBelow(content);
  // New cells may be set to be text.
  if (content.activeCell?.model.type !== "code") NotebookActions.changeCellType(content, "code");
  content.activeCell?.model.sharedModel.setSource(CONNECT);
  await NotebookActions.run(content, sessionContext);
}

async function inject(app: JupyterFrontEnd, { path }: Kernel): Promise<void> {
  await app.commands.execute("console:inject", { path, code: CONNECT, activate: false });
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

function steering(kernels: Kernels, trans: TranslationBundle): Record<string, Options> {
  const target = (): Target | null => find(kernels, {});
  const paused = (): boolean => target()?.row.state === "paused";
  const command = (
    ask: Ask,
    label: Options["label"],
    execute: (target: Target) => Promise<void>,
  ): Options => ({
    label,
    isEnabled: () => {
      const now = target();
      return now?.kernel.state === "open" && unavailable(now.row, ask) === "";
    },
    execute: async () => {
      const now = target();
      if (now) await execute(now);
    },
  });
  const pauseLabel = (): string =>
    paused() ? trans.__("Resume Training") : trans.__("Pause Training");
  return {
    [COMMANDS.pauseResume]: command(TOGGLE, pauseLabel, (now) =>
      send(now, trans, paused() ? "resume" : "pause"),
    ),
    [COMMANDS.stop]: command(STOP, trans.__("Stop and Keep Weights…"), (now) => stop(now, trans)),
    [COMMANDS.repartition]: command(
      { commands: ["repartition"] },
      trans.__("Repartition…"),
      (now) => repartition(now, trans),
    ),
    [COMMANDS.swapCombiner]: command(
      { commands: ["swap combiner"] },
      trans.__("Swap Combiner…"),
      (now) => swapCombiner(now, trans),
    ),
  };
}

async function stop(target: Target, trans: TranslationBundle): Promise<void> {
  const { number } = target.row;
  const { button } = await showDialog({
    title: trans.__("Stop run %1?", number),
    body: trans.__("The run ends and keeps its weights. You cannot resume it."),
    buttons: [
      Dialog.cancelButton({ label: trans.__("Cancel") }),
      Dialog.warnButton({ label: trans.__("Stop") }),
    ],
    defaultButton: 0,
  });
  if (button.accept) await send(target, trans, "stop");
}

async function repartition(target: Target, trans: TranslationBundle): Promise<void> {
  const { value } = await InputDialog.getNumber({
    title: trans.__("Repartition Run %1", target.row.number),
    label: trans.__("Partitions from the next epoch on"),
    value: target.row.partitions,
    okLabel: trans.__("Repartition"),
  });
  if (value === null) return;
  if (Number.isInteger(value) && value >= 1) {
    await send(target, trans, "repartition", { partitions: value });
  } else {
    Notification.error(trans.__("Partitions are a whole number, at least 1."));
  }
}

async function swapCombiner(target: Target, trans: TranslationBundle): Promise<void> {
  const { number, combiner } = target.row;
  const swap = actionsOf(target.row).find(({ name }) => name === "swap combiner");
  const combiners = swap?.arguments[0].choices ?? [];
  const items = combiners.includes(combiner) ? [...combiners] : [combiner, ...combiners];
  const { value } = await InputDialog.getItem({
    title: trans.__("Swap the Combiner of Run %1", number),
    label: trans.__("Combiner"),
    items,
    current: items.indexOf(combiner),
    okLabel: trans.__("Swap"),
  });
  if (value !== null) await send(target, trans, "swap combiner", { combiner: value });
}

/** What comes of it is to be seen in the run's state; a refusal would not be. */
async function send(
  { kernel, row }: Target,
  trans: TranslationBundle,
  command: string,
  arguments_: Record<string, unknown> = {},
): Promise<void> {
  const refused = (why: string): void => {
    Notification.error(trans.__("Run %1: %2", row.number, why));
  };
  try {
    const { ok, text } = await kernel.command(row.id, command, arguments_);
    if (!ok) refused(text);
  } catch (reason) {
    refused(reason instanceof Error ? reason.message : String(reason));
  }
}

function showing(app: JupyterFrontEnd, kernels: Kernels, parts: Parts): Record<string, Options> {
  const { notebooks, trans, openPanel, openRun } = parts;
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

/** The run that `path` and `run` name; by default the current one of the kernel in front. */
function find(kernels: Kernels, { path, run }: Arguments): Target | null {
  const kernel = typeof path === "string" ? kernels.find(path) : kernels.current;
  const row = typeof run === "string" ? kernel?.overview.run(run) : kernel?.overview.current;
  return kernel && row ? { kernel, row } : null;
}
