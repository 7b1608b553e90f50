/** Finds kernels that train although no document of theirs is open. */

import type { Kernel, ServiceManager, Session } from "@jupyterlab/services";

import type { Hub } from "./hub";

type Services = Pick<ServiceManager.IManager, "sessions" | "kernels">;

export class Visits {
  /** Kernels that had nothing to tell, by the paths of their sessions. */
  private readonly silent = new Map<string, string>();

  constructor(
    private readonly services: Services,
    private readonly hub: Hub,
  ) {
    services.sessions.runningChanged.connect(this.look);
    hub.closed.connect(this.look);
    this.look();
  }

  private readonly look = (): void => {
    for (const session of this.services.sessions.running()) void this.visit(session);
  };

  private async visit({ path, kernel }: Session.IModel): Promise<void> {
    if (!kernel || this.silent.get(path) === kernel.id) return;
    const link = this.hub.at(path);
    if (link.present) {
      this.silent.delete(path);
      return;
    }
    // The document may be opened any time: its comms are its own.
    const model: Kernel.IModel = kernel;
    const connection = this.services.kernels.connectTo({ model, handleComms: false });
    if (!(await link.visit(connection))) this.silent.set(path, kernel.id);
  }
}
