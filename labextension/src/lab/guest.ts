/** A connection of our own to a kernel, until its document has one, if ever. */

import type { Kernel } from "@jupyterlab/services";

/** What the kernel says of itself when it goes away. */
export const ENDS = new Set(["restarting", "autorestarting", "terminating", "dead"]);

export class Guest {
  constructor(
    readonly kernel: Kernel.IKernelConnection,
    private readonly ended: () => void,
    private readonly connected: () => void,
  ) {
    kernel.statusChanged.connect(this.onStatus);
    kernel.connectionStatusChanged.connect(this.onConnection);
  }

  dispose(): void {
    const { kernel } = this;
    kernel.statusChanged.disconnect(this.onStatus);
    kernel.connectionStatusChanged.disconnect(this.onConnection);
    kernel.dispose();
  }

  private readonly onStatus = (_: unknown, status: Kernel.Status): void => {
    if (ENDS.has(status)) this.ended();
  };

  private readonly onConnection = (_: unknown, status: Kernel.ConnectionStatus): void => {
    if (status === "connected") this.connected();
  };
}
