/** The plug-in: what it needs of JupyterLab or Jupyter Notebook, and what it adds. */

import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin,
} from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { IConsoleTracker } from "@jupyterlab/console";
import { ILauncher } from "@jupyterlab/launcher";
import type { INotebookContent } from "@jupyterlab/nbformat";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IStatusBar } from "@jupyterlab/statusbar";
import { ITranslator, nullTranslator, type TranslationBundle } from "@jupyterlab/translation";

import { setTranslation } from "../view/text";
import { CellMarks, panelOf, revealCell } from "./cell-marks";
import { addCommands, COMMANDS, inject, runBelow } from "./commands";
import { type Document, Hub } from "./hub";
import type { Kernel } from "./kernels";
import { addLauncher } from "./launcher";
import type { KernelLink } from "./link";
import { Notifier } from "./notify";
import { othersOf } from "./others";
import { Panel } from "./panel";
import type { PanelContext } from "./panel-context";
import { RUN_MIME } from "./protocol";
import { RunOutput } from "./run-output";
import { RunTabs } from "./run-tabs";
import { argument } from "./run-words";
import { SavedPictures } from "./saved-pictures";
import { SettingsModel } from "./settings";
import { sparkUi } from "./spark-ui";
import { StatusItem } from "./status-item";
import { Visits } from "./visits";
import first from "../../../notebooks/00_first_steps.ipynb";

const ID = "tos-notebook:plugin";
/** Before that of ipywidgets, -10: ours is restored faster, and can write into the notebook. */
const RANK = -20;

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: "Shows and steers the training of TensorFlow models on Spark.",
  autoStart: true,
  optional: [
    INotebookTracker,
    IConsoleTracker,
    ITranslator,
    ISettingRegistry,
    ICommandPalette,
    IStatusBar,
    ILayoutRestorer,
    ILauncher,
  ],
  activate: async (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker | null,
    consoles: IConsoleTracker | null,
    translator: ITranslator | null,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null,
    statusBar: IStatusBar | null,
    restorer: ILayoutRestorer | null,
    launcher: ILauncher | null,
  ) => {
    const trans = (translator ?? nullTranslator).load("tos_notebook");
    setTranslation(trans);
    const hub = new Hub(app.shell, notebooks, consoles);
    // Before anything is waited for: a reloaded page is to show its runs at once.
    new Visits(app.serviceManager, hub, app.restored);
    const settings = await SettingsModel.load(registry, ID);
    const tabs = new RunTabs(app, hub, trans, settings, (kernel, run) =>
      othersOf(run, kernel, (notebooks && panelOf(notebooks, kernel))?.model ?? null),
    );
    showInCells(app, hub, settings);
    const openCluster = opener(app, notebooks);
    const compare = comparer(app, notebooks);
    const parts = { trans, openRun: tabs.open, openCluster, compare };
    const panel = addPanel(app, hub, parts, restorer);
    const notifier = new Notifier(hub, settings, trans, tabs.open);
    addCommands(app, hub, {
      ...{ palette, notebooks, trans, openRun: tabs.open, steerRun: tabs.steer },
      openPanel: () => {
        app.shell.activateById(panel.id);
      },
      onInterest: () => {
        notifier.askPermission();
      },
    });
    addLauncher(app, launcher, trans, palette, first as INotebookContent);
    if (notebooks) {
      new CellMarks(hub, notebooks, trans);
      new SavedPictures(hub, notebooks);
    }
    if (statusBar) addStatus(app, statusBar, hub, trans, openCluster);
    if (restorer) tabs.restore(restorer);
  },
};

/** Let the outputs of runs that train be shown by us, from the first one that is drawn. */
function showInCells(app: JupyterFrontEnd, hub: Hub, settings: SettingsModel): void {
  app.docRegistry.addWidgetExtension("Notebook", {
    createNew: (panel: NotebookPanel) => {
      hub.add(panel);
      const { rendermime } = panel.content;
      const link = (): KernelLink | null => hub.of(panel.sessionContext);
      const createRenderer = (): RunOutput =>
        new RunOutput(link, rendermime, settings, (run) => othersOf(run, link(), panel.model));
      rendermime.addFactory({ safe: true, mimeTypes: [RUN_MIME], createRenderer }, RANK);
    },
  });
}

/** Brings the notebook or console of a kernel to the front. */
function openDocumentIn(app: JupyterFrontEnd): (kernel: Kernel) => void {
  return ({ context, path }) => {
    const open = [...app.shell.widgets("main")].find(
      (widget) => context !== null && (widget as Partial<Document>).sessionContext === context,
    );
    if (open) app.shell.activateById(open.id);
    else void app.commands.execute("docmanager:open", { path });
  };
}

type OpenCluster = PanelContext["openCluster"];

function opener(app: JupyterFrontEnd, notebooks: INotebookTracker | null): OpenCluster {
  const openDocument = openDocumentIn(app);
  return (kernel, cluster) => {
    openDocument(kernel);
    if (notebooks) revealCell(notebooks, kernel, cluster);
  };
}

/** By a cell of the notebook, so that it stays there. */
function comparer(
  app: JupyterFrontEnd,
  notebooks: INotebookTracker | null,
): PanelContext["compare"] {
  const openDocument = openDocumentIn(app);
  return (kernel, runs) => {
    const names = runs.map((row) => argument(row, kernel.overview.runs));
    const code = `%tos_compare ${names.join(" ")}`;
    openDocument(kernel);
    const notebook = notebooks && panelOf(notebooks, kernel);
    void (notebook ? runBelow(notebook, code) : inject(app, kernel, code));
  };
}

function addPanel(
  app: JupyterFrontEnd,
  hub: Hub,
  parts: Pick<PanelContext, "trans" | "openRun" | "openCluster" | "compare">,
  restorer: ILayoutRestorer | null,
): Panel {
  const ui = sparkUi(app.serviceManager.serverSettings);
  const context = { ...parts, openDocument: openDocumentIn(app), sparkUi: ui };
  const panel = new Panel(hub, context, (seen) => {
    hub.inSight = seen;
  });
  app.shell.add(panel, "left", { rank: 600 });
  restorer?.add(panel, panel.id);
  return panel;
}

function addStatus(
  app: JupyterFrontEnd,
  statusBar: IStatusBar,
  hub: Hub,
  trans: TranslationBundle,
  openCluster: OpenCluster,
): void {
  const jump = ({ path }: Kernel, { id }: { id: string }): void => {
    void app.commands.execute(COMMANDS.jumpToCell, { path, run: id });
  };
  const item = new StatusItem(hub, trans, jump, openCluster);
  const { isActive, activeStateChanged } = item;
  statusBar.registerStatusItem("tos-notebook:status", {
    ...{ item, isActive, activeStateChanged, align: "left", rank: 10 },
  });
}

export default plugin;
