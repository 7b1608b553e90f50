/** A run as a notebook has saved it: the same view, without a kernel. */

import { Widget } from "@lumino/widgets";

import type { Channel, Listener } from "../view/channel";
import { hasEnded, type Snapshot } from "../view/model";
import type { Choices } from "../view/others";
import { RunView } from "../view/run-view";
import { t } from "../view/text";
import type { ViewSettings } from "./settings";

/** Tells what was saved, and nothing else. */
export class SavedChannel implements Channel {
  constructor(private readonly snapshot: Snapshot) {}

  open(listener: Listener): Promise<void> {
    listener.message(this.snapshot.message, this.snapshot.buffers);
    return Promise.resolve();
  }
  hello(): void {
    /* No kernel is there. */
  }
  command(): void {
    /* No kernel is there. */
  }
  close(): void {
    /* Nothing is held. */
  }
}

export class SavedRun extends Widget {
  readonly view: RunView;

  constructor(snapshot: Snapshot, settings: Partial<ViewSettings>, others: Choices | null = null) {
    super();
    this.view = new RunView(new SavedChannel(snapshot), settings, others);
    this.node.append(this.view.element);
    this.view.start();
    const { state } = snapshot.message.state.run;
    if (hasEnded(state) && state !== "lost") this.view.freeze("");
    else this.view.lose(t("The kernel of this run is gone; this is what was saved of it."));
  }

  override dispose(): void {
    if (!this.isDisposed) this.view.destroy();
    super.dispose();
  }
}
