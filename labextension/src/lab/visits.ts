/** Finds kernels that train although no document of theirs is open, or not yet. */

import type { Kernel, ServiceManager, Session } from "@jupyterlab/services";

import type { Hub } from "./hub";
import { recall, remember } from "./page-memory";

type Services = Pick<ServiceManager.IManager, "sessions" | "kernels">;

/** Where a tab of the browser keeps the paths whose runs it followed, for when it is reloaded. */
const FOLLOWED = "tos-notebook:followed";

export class Visits {
  /** Kernels that had nothing to tell, by the paths of their sessions. */
  private readonly silent = new Map<string, string>();
  /** The paths whose kernels train, as far as is known; those of before the page was reloaded. */
  private readonly followed = new Set(recall(FOLLOWED) as string[] | null);
  private laidOut = false;

  /**
   * Until the layout is restored, whatever it opens again is left alone, except for kernels that are
   * known to train: JupyterLab connects to them only after it has drawn their documents.
   */
  constructor(
    private readonly services: Services,
    private readonly hub: Hub,
    restored: Promise<void>,
  ) {
    services.sessions.runningChanged.connect(this.look);
    hub.closed.connect(this.look);
    hub.changed.connect(this.remember);
    void restored.then(() => {
      this.laidOut = true;
      this.look();
    });
    this.look();
  }

  private readonly look = (): void => {
    for (const session of this.services.sessions.running()) {
      if (this.laidOut || this.followed.has(session.path)) void this.visit(session);
    }
  };

  private async visit({ path, kernel }: Session.IModel): Promise<void> {
    if (!kernel) return;
    const link = this.hub.at(path);
    if (link.present) {
      this.silent.delete(path);
      return;
    }
    if (this.silent.get(path) === kernel.id) return;
    // The document may be opened any time: its comms are its own.
    const model: Kernel.IModel = kernel;
    const connection = this.services.kernels.connectTo({ model, handleComms: false });
    if (!(await link.visit(connection))) this.silent.set(path, kernel.id);
  }

  private readonly remember = (): void => {
    for (const { path, state, overview } of this.hub) {
      if (state === "open" && overview.busy) this.followed.add(path);
      else if (state === "open" || state === "lost") this.followed.delete(path);
    }
    remember(FOLLOWED, [...this.followed]);
  };
}
