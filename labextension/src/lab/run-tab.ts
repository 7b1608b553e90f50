/** A run's live view as a tab of the main area. */

import { MainAreaWidget } from "@jupyterlab/apputils";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Widget } from "@lumino/widgets";

import { h, setAttribute, setText } from "../view/dom";
import type { Choice } from "../view/others";
import { RunView } from "../view/run-view";
import { tosIcon } from "./icon";
import type { Kernel, RunChannel } from "./kernels";
import { mark } from "./run-views";
import { titled } from "./run-words";
import type { ViewSettings } from "./settings";

/** Seconds between two messages while the tab is hidden. */
export const UNSEEN = 5;

export interface RunTabOptions {
  trans: TranslationBundle;
  settings: ViewSettings;
  /** What can be drawn beside the run of a kernel; nothing can if left out. */
  others?: (kernel: Kernel, run: string) => readonly Choice[];
  /** What the run was called before the page was reloaded. */
  called?: string | null;
}

export class RunTab extends Widget {
  private readonly trans: TranslationBundle;
  private readonly notice = h("p", { class: "tos-lab-notice", role: "status", hidden: true });
  private readonly channel: RunChannel;
  private readonly view: RunView;
  private settings: ViewSettings;
  private started = false;
  /** Before this the kernel has had no chance to know the run. */
  private asked = false;
  private restarted = false;
  /** What the run is called once that is known, also after a restart. */
  private called: string | null;

  constructor(
    readonly kernel: Kernel,
    readonly run: string,
    { trans, settings, others, called = null }: RunTabOptions,
  ) {
    super();
    this.trans = trans;
    this.called = called;
    this.settings = settings;
    this.channel = kernel.channel(run);
    const choices = others ? (id: string) => others(kernel, id) : null;
    this.view = new RunView(this.channel, settings, choices);
    this.addClass("tos-lab-run-tab");
    this.title.icon = tosIcon;
    mark(this.node, run);
    this.node.append(this.notice, this.view.element);
    kernel.changed.connect(this.refresh, this);
    document.addEventListener("visibilitychange", this.pace);
    this.refresh();
  }

  /** What the run is called; null before that is known. */
  get name(): string | null {
    return this.called;
  }

  override dispose(): void {
    if (this.isDisposed) return;
    document.removeEventListener("visibilitychange", this.pace);
    this.view.destroy();
    super.dispose();
  }

  /** The user's settings have changed. */
  apply(settings: ViewSettings): void {
    this.settings = settings;
    this.view.settings(settings);
    this.pace();
  }

  /** Show everything that can be changed. */
  steer(): void {
    this.view.steer();
  }

  protected override onAfterAttach(): void {
    // A tab that is dragged elsewhere is attached again.
    if (!this.started) this.view.start();
    this.started = true;
    this.refresh();
    this.pace();
  }

  protected override onAfterShow(): void {
    this.pace();
  }

  protected override onAfterHide(): void {
    this.pace();
  }

  private readonly pace = (): void => {
    const { updateSeconds } = this.settings;
    const seen = this.isVisible && !document.hidden;
    this.channel.pace(seen ? updateSeconds : Math.max(UNSEEN, updateSeconds));
  };

  private readonly refresh = (): void => {
    const { kernel, trans } = this;
    const row = kernel.overview.run(this.run);
    this.asked ||= kernel.state !== "absent" && kernel.state !== "closed";
    if (kernel.state === "lost") this.restarted = true;
    if (kernel.state === "open" && row) this.restarted = false;
    this.called = row ? titled(row, trans) : this.called;
    this.title.label =
      this.called === null
        ? trans.__("Run · %1", kernel.name)
        : trans.__("%1 · %2", this.called, kernel.name);
    this.title.caption = kernel.path;
    setAttribute(this.node, "aria-label", this.title.label);
    const settled = kernel.state === "open" || kernel.state === "absent";
    this.tell(this.restarted || (this.asked && settled && !row));
  };

  /** Say so where the view shows the run no more as it is. */
  private tell(gone: boolean): void {
    const { kernel, trans, view } = this;
    const blank = view.element.dataset.state === "waiting";
    let notice = "";
    if (gone && blank) {
      notice = trans.__("The kernel does not know this run: it was restarted, or never had it.");
    } else if (gone) {
      notice = trans.__("The kernel was restarted; this is what it had shown.");
    } else if (kernel.state === "closed") {
      notice = trans.__("The notebook is closed; open it to follow the run.");
    }
    if (gone) view.lose(notice);
    else view.freeze(notice === "" ? null : notice);
    // A view that shows something says it in a line of its own; another would keep saying that it waits.
    const told = notice !== "" && blank;
    setText(this.notice, told ? notice : "");
    this.notice.toggleAttribute("hidden", !told);
    view.element.toggleAttribute("hidden", told);
  }
}

export function createRunTab(
  kernel: Kernel,
  run: string,
  options: RunTabOptions,
): MainAreaWidget<RunTab> {
  const tab = new MainAreaWidget({ content: new RunTab(kernel, run, options) });
  tab.toolbar.hide();
  return tab;
}
