/** The runs that are open as tabs of the main area, also after the page was reloaded. */

import type { ILayoutRestorer, JupyterFrontEnd } from "@jupyterlab/application";
import { type MainAreaWidget, WidgetTracker } from "@jupyterlab/apputils";
import type { TranslationBundle } from "@jupyterlab/translation";

import type { Hub } from "./hub";
import type { Kernel } from "./kernels";
import { createRunTab, type RunTab } from "./run-tab";
import type { SettingsModel } from "./settings";

/** Of no use to people: it is in no menu. */
const RESTORE = "tos-notebook:restore-run";

type Tab = MainAreaWidget<RunTab>;

export class RunTabs {
  private readonly tracker = new WidgetTracker<Tab>({ namespace: "tos-notebook" });

  constructor(
    private readonly app: JupyterFrontEnd,
    hub: Hub,
    private readonly trans: TranslationBundle,
    private readonly settings: SettingsModel,
  ) {
    settings.changed.connect((_, values) => {
      this.tracker.forEach(({ content }) => {
        content.apply(values);
      });
    });
    app.commands.addCommand(RESTORE, {
      label: trans.__("Restore a Run's Tab"),
      execute: ({ path, run }) => {
        this.show(hub.at(path as string), run as string);
      },
    });
  }

  readonly open = (kernel: Kernel, run: string): void => {
    const known = this.tracker.find(({ content }) => content.run === run);
    const tab = known ?? this.show(kernel, run, "split-right");
    this.app.shell.activateById(tab.id);
  };

  restore(restorer: ILayoutRestorer): void {
    void restorer.restore(this.tracker, {
      command: RESTORE,
      args: ({ content }) => ({ path: content.kernel.path, run: content.run }),
      name: ({ content }) => content.run,
    });
  }

  private show(kernel: Kernel, run: string, mode?: "split-right"): Tab {
    const tab = createRunTab(kernel, run, { trans: this.trans, settings: this.settings.current });
    tab.id = `tos-${run}`;
    const { shell } = this.app;
    shell.add(tab, "main", { mode, activate: false });
    // Notebook 7 has room for its document alone there.
    if (!tab.isAttached) shell.add(tab, "down");
    void this.tracker.add(tab);
    return tab;
  }
}
