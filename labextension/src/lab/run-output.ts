/** A run's live view in the cell's output, over our own comms; else what the output holds of it. */

import { type IRenderMimeRegistry, MimeModel, type IRenderMime } from "@jupyterlab/rendermime";
import { Widget } from "@lumino/widgets";

import { h } from "../view/dom";
import { hasEnded } from "../view/model";
import type { Choices } from "../view/others";
import { RunView } from "../view/run-view";
import { t } from "../view/text";
import type { CommChannel } from "./comm-channel";
import { intoSight } from "./into-sight";
import type { KernelLink } from "./link";
import { RUN_MIME, type RunReference } from "./protocol";
import { mark } from "./run-views";
import { snapshotOf } from "./saved";
import { SavedRun } from "./saved-run";
import type { SettingsModel } from "./settings";

/** Of the widget that other front ends show; without its kernel it shows nothing. */
const WIDGET_MIME = "application/vnd.jupyter.widget-view+json";

/** Seconds since its start in which a run is one that somebody has just begun. */
const NEW = 5;

/** Seconds between two messages while the notebook is hidden. */
const UNSEEN = 5;

export class RunOutput extends Widget implements IRenderMime.IRenderer {
  private saved: Widget | null = null;
  private view: RunView | null = null;
  private channel: CommChannel | null = null;
  private run: string | null = null;
  /** The link to the kernel whose run is shown. */
  private shown: KernelLink | null = null;

  constructor(
    private readonly link: () => KernelLink | null,
    private readonly rendermime: IRenderMimeRegistry,
    private readonly settings: SettingsModel,
    private readonly others: Choices | null = null,
  ) {
    super();
    this.addClass("tos-lab-output");
    document.addEventListener("visibilitychange", this.pace);
    settings.changed.connect(this.apply);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const link = this.link();
    if (link === null) {
      await this.showSaved(model);
      return;
    }
    const { run } = model.data[RUN_MIME] as unknown as RunReference;
    // Only what will be saved has changed.
    if (this.view !== null && link === this.shown && run === this.run) return;
    this.run = run;
    mark(this.node, run);
    const channel = link.channel(run);
    const early = link.state !== "open";
    if (early) await this.showMeanwhile(link, channel, model);
    const met = await succeeds(link.expect());
    if (met && link.overview.run(run) && this.showLive(link, channel)) return;
    this.endLive(channel);
    if (!early || this.saved === null) await this.showSaved(model);
    // A run that this page saw begin is on its way; one that was saved, and is unknown, is lost.
    if (early || !met) this.sayLost();
    // A kernel that has nothing of ours sends nothing.
    if (met) this.expectRun(link, run);
  }

  override dispose(): void {
    if (this.isDisposed) return;
    document.removeEventListener("visibilitychange", this.pace);
    this.settings.changed.disconnect(this.apply);
    this.shown?.changed.disconnect(this.refresh);
    this.saved?.dispose();
    // The view closes its channel; until there is a view, this output does.
    if (this.view === null) this.channel?.close();
    else this.view.destroy();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    this.pace();
  }

  protected override onAfterShow(): void {
    this.pace();
  }

  protected override onAfterHide(): void {
    this.pace();
  }

  /** The user's settings have changed. */
  private readonly apply = (): void => {
    this.view?.settings(this.settings.current);
    if (this.saved instanceof SavedRun) this.saved.view.settings(this.settings.current);
    this.pace();
  };

  private readonly refresh = (): void => {
    if (this.shown?.state === "lost") {
      this.view?.lose(t("The kernel was restarted; this is what it had shown."));
    } else {
      this.view?.freeze(null);
    }
  };

  private readonly pace = (): void => {
    const { updateSeconds } = this.settings.current;
    const seen = this.isVisible && !document.hidden;
    this.channel?.pace(seen ? updateSeconds : Math.max(UNSEEN, updateSeconds));
  };

  /** An output may come before the news of its run. */
  private expectRun(link: KernelLink, run: string): void {
    const look = (): void => {
      if (!link.overview.run(run)) return;
      link.changed.disconnect(look);
      this.showLive(link, link.channel(run));
    };
    link.changed.connect(look);
    this.disposed.connect(() => link.changed.disconnect(look));
    look();
  }

  /** Show what is remembered or saved of a run until the kernel has said whether it knows it. */
  private async showMeanwhile(
    link: KernelLink,
    channel: CommChannel,
    model: IRenderMime.IMimeModel,
  ): Promise<void> {
    if (this.view !== null) return;
    this.channel = channel;
    channel.ahead();
    if (!channel.remembers || !this.showLive(link, channel)) await this.showSaved(model);
  }

  /** Returns whether it is shown now; else there was no place for it. */
  private showLive(link: KernelLink, channel: CommChannel): boolean {
    if (this.view !== null) return channel === this.channel;
    if (this.isDisposed) return false;
    this.channel = channel;
    this.pace();
    this.view = new RunView(this.channel, this.settings.current, this.others);
    this.saved?.dispose();
    this.node.replaceChildren(this.view.element);
    this.view.start();
    const row = this.run === null ? undefined : link.overview.run(this.run);
    if (row && row.elapsed < NEW && !hasEnded(row.state)) {
      this.disposed.connect(intoSight(this.view.element));
    }
    this.shown = link;
    link.changed.connect(this.refresh);
    return true;
  }

  /** The kernel does not know the run. */
  private endLive(channel: CommChannel): void {
    channel.close();
    if (channel !== this.channel) return;
    this.shown?.changed.disconnect(this.refresh);
    this.view?.destroy();
    this.channel = this.shown = this.view = null;
  }

  /** What was saved of a run that trained says no more than that. */
  private sayLost(): void {
    if (this.isDisposed || this.view !== null || this.saved === null) return;
    // The view itself says what became of the run.
    if (this.saved instanceof SavedRun) return;
    const text = t("✕ lost: the kernel of this run is gone. This is what was saved of it.");
    this.node.replaceChildren(h("p", { class: "tos-lab-notice" }, text), this.saved.node);
  }

  private async showSaved(model: IRenderMime.IMimeModel): Promise<void> {
    const snapshot = snapshotOf((model.data[RUN_MIME] as unknown as RunReference).saved);
    if (snapshot !== null) {
      if (this.isDisposed || this.view !== null) return;
      this.saved?.dispose();
      this.saved = new SavedRun(snapshot, this.settings.current, this.others);
      this.node.replaceChildren(this.saved.node);
      return;
    }
    await this.showPicture(model);
  }

  private async showPicture(model: IRenderMime.IMimeModel): Promise<void> {
    const data = { ...model.data };
    Reflect.deleteProperty(data, RUN_MIME);
    if (Object.keys(data).length > 1) Reflect.deleteProperty(data, WIDGET_MIME);
    const saved = new MimeModel({ data, metadata: model.metadata, trusted: model.trusted });
    const type = this.rendermime.preferredMimeType(data, model.trusted ? "any" : "ensure");
    if (type === undefined) return;
    const renderer = this.rendermime.createRenderer(type);
    await renderer.renderModel(saved);
    if (this.isDisposed || this.view !== null) {
      renderer.dispose();
      return;
    }
    this.saved?.dispose();
    this.saved = renderer;
    this.node.replaceChildren(renderer.node);
  }
}

async function succeeds(promise: Promise<void>): Promise<boolean> {
  return promise.then(
    () => true,
    () => false,
  );
}
