/** A document's session, as JupyterLab keeps it through the lives of its kernel. */

import type { ISessionContext } from "@jupyterlab/apputils";
import { expect, vi } from "vitest";

import { Counted, type FakeKernel } from "./kernel-fakes";

/** Let what is due happen. */
export async function settle(seconds = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(1000 * seconds);
}

/** Let things happen one by one until something has. */
export async function until(happened: () => boolean): Promise<void> {
  for (let step = 0; step < 100 && !happened(); step++) await Promise.resolve();
  expect(happened()).toBe(true);
}

type KernelChange = { oldValue: FakeKernel | null; newValue: FakeKernel | null };

export class FakeContext {
  readonly name: string;
  readonly disposed = new Counted<this, undefined>(this);
  readonly kernelChanged = new Counted<this, KernelChange>(this);
  readonly statusChanged = new Counted<this, string>(this);
  readonly connectionStatusChanged = new Counted<this, string>(this);
  readonly ready = Promise.resolve();
  session: { kernel: FakeKernel | null } | null = null;

  constructor(
    public path: string,
    kernel: FakeKernel | null = null,
  ) {
    this.name = path.split("/").at(-1) ?? "";
    if (kernel) this.session = { kernel };
  }

  get real(): ISessionContext {
    return this as unknown as ISessionContext;
  }

  get kernel(): FakeKernel | null {
    return this.session?.kernel ?? null;
  }

  /** Everything that a page listens to while the document is open. */
  get listeners(): number {
    const { kernelChanged, statusChanged, connectionStatusChanged } = this;
    return kernelChanged.count + statusChanged.count + connectionStatusChanged.count;
  }

  change(kernel: FakeKernel | null): void {
    const oldValue = this.kernel;
    oldValue?.dispose();
    this.session = { kernel };
    this.kernelChanged.emit({ oldValue, newValue: kernel });
  }

  /** As JupyterLab does: first the word, then the deed, then the same kernel as if it were new. */
  async restart(): Promise<void> {
    const { kernel } = this;
    this.statusChanged.emit("restarting");
    kernel?.restart();
    await settle();
    this.reconnect();
    this.statusChanged.emit("idle");
    this.kernelChanged.emit({ oldValue: kernel, newValue: kernel });
    await settle();
  }

  reconnect(): void {
    this.connectionStatusChanged.emit("connecting");
    this.connectionStatusChanged.emit("connected");
  }

  /** The word comes first, while the connection still works. */
  dispose(): void {
    const { kernel } = this;
    this.disposed.emit(undefined);
    kernel?.dispose();
    this.session = null;
    this.kernelChanged.emit({ oldValue: kernel, newValue: null });
  }
}
