/** The runs that are open as tabs of the main area, also after the page was reloaded. */

import type { ILayoutRestorer, JupyterFrontEnd } from "@jupyterlab/application";
import { type MainAreaWidget, WidgetTracker } from "@jupyterlab/apputils";
import type { DocumentRegistry } from "@jupyterlab/docregistry";
import type { TranslationBundle } from "@jupyterlab/translation";
import { SplitPanel, type Widget } from "@lumino/widgets";

import type { Hub } from "./hub";
import type { Kernel } from "./kernels";
import { createRunTab, type RunTab, type RunTabOptions } from "./run-tab";
import type { SettingsModel } from "./settings";

/** Of no use to people: it is in no menu. */
const RESTORE = "tos-notebook:restore-run";

/** Pixels of the front document below which two beside each other are too narrow. */
const NARROW = 900;

/** Part of the height that Notebook 7 gives to what is below its document. */
const BELOW = 0.45;

type Tab = MainAreaWidget<RunTab>;
type Place = Pick<DocumentRegistry.IOpenOptions, "mode" | "ref">;

export class RunTabs {
  private readonly tracker = new WidgetTracker<Tab>({ namespace: "tos-notebook" });

  constructor(
    private readonly app: JupyterFrontEnd,
    hub: Hub,
    private readonly trans: TranslationBundle,
    private readonly settings: SettingsModel,
    private readonly others?: RunTabOptions["others"],
  ) {
    settings.changed.connect((_, values) => {
      this.tracker.forEach(({ content }) => {
        content.apply(values);
      });
    });
    app.commands.addCommand(RESTORE, {
      label: trans.__("Restore a Run's Tab"),
      execute: ({ path, run, called }) => {
        const name = typeof called === "string" ? called : null;
        this.show(hub.at(path as string), run as string, {}, name);
      },
    });
  }

  readonly open = (kernel: Kernel, run: string): Tab => {
    const known = this.tracker.find(({ content }) => content.run === run);
    const tab = known ?? this.show(kernel, run, this.place());
    this.app.shell.activateById(tab.id);
    return tab;
  };

  /** Open it with everything that can be changed. */
  readonly steer = (kernel: Kernel, run: string): void => {
    this.open(kernel, run).content.steer();
  };

  restore(restorer: ILayoutRestorer): void {
    void restorer.restore(this.tracker, {
      command: RESTORE,
      args: ({ content }) => {
        const { kernel, run, name } = content;
        return name === null
          ? { path: kernel.path, run }
          : { path: kernel.path, run, called: name };
      },
      name: ({ content }) => content.run,
    });
  }

  /** Beside the others; the first one beside its notebook, or below it where that is narrow. */
  private place(): Place {
    const other = this.tracker.currentWidget ?? this.tracker.find(() => true);
    if (other?.isAttached) return { mode: "tab-after", ref: other.id };
    const { currentWidget } = this.app.shell;
    const narrow = currentWidget !== null && currentWidget.node.offsetWidth < NARROW;
    return { mode: narrow ? "split-bottom" : "split-right" };
  }

  private show(kernel: Kernel, run: string, place: Place = {}, called: string | null = null): Tab {
    const { trans, others } = this;
    const settings = this.settings.current;
    const tab = createRunTab(kernel, run, { trans, settings, others, called });
    tab.id = `tos-${run}`;
    const { shell } = this.app;
    shell.add(tab, "main", { ...place, activate: false });
    // Notebook 7 has room for its document alone there.
    if (!tab.isAttached) {
      shell.add(tab, "down");
      shell.activateById(tab.id);
      makeRoom(tab);
    }
    void this.tracker.add(tab);
    // A tab that is restored has its run's name before its kernel has said anything.
    tab.content.title.changed.connect(() => void this.tracker.save(tab));
    return tab;
  }
}

/** Give what is below the document a part of the height, where it has next to none. */
function makeRoom(tab: Widget): void {
  let below = tab;
  while (below.parent && !(below.parent instanceof SplitPanel)) below = below.parent;
  const { parent } = below;
  if (!(parent instanceof SplitPanel) || parent.orientation !== "vertical") return;
  const at = parent.widgets.indexOf(below);
  if (parent.relativeSizes()[at] >= BELOW / 2) return;
  const others = parent.widgets.length - 1;
  parent.setRelativeSizes(parent.widgets.map((_, i) => (i === at ? BELOW : (1 - BELOW) / others)));
}
