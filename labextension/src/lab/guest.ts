/** A connection of our own to a kernel, until its document has one, if ever. */

import type { Kernel } from "@jupyterlab/services";

/** What the kernel says of itself when it goes away. */
export const ENDS = new Set(["restarting", "autorestarting", "terminating", "dead"]);

/** Milliseconds that one connection's messages may come after another's. */
const BEHIND = 1000;

export class Guest {
  private wasConnected = false;

  constructor(
    readonly kernel: Kernel.IKernelConnection,
    private readonly ended: () => void,
    private readonly reconnected: () => void,
  ) {
    kernel.statusChanged.connect(this.onStatus);
    kernel.connectionStatusChanged.connect(this.onConnection);
  }

  dispose(): void {
    this.leave();
    this.kernel.dispose();
  }

  /** Another connection takes over, but this one may be behind it. */
  retire(): void {
    this.leave();
    setTimeout(() => {
      this.kernel.dispose();
    }, BEHIND);
  }

  private leave(): void {
    this.kernel.statusChanged.disconnect(this.onStatus);
    this.kernel.connectionStatusChanged.disconnect(this.onConnection);
  }

  private readonly onStatus = (_: unknown, status: Kernel.Status): void => {
    if (ENDS.has(status)) this.ended();
  };

  private readonly onConnection = (_: unknown, status: Kernel.ConnectionStatus): void => {
    if (status !== "connected") return;
    if (this.wasConnected) this.reconnected();
    this.wasConnected = true;
  };
}
