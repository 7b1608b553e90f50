/** One view's share of a kernel's comms. */

import { UUID } from "@lumino/coreutils";

import type { Listener } from "../view/channel";
import type { StreamMessage } from "../view/model";
import type { RunChannel } from "./kernels";
import type { KernelLink } from "./link";
import type { PageMemory } from "./page-memory";

export class CommChannel implements RunChannel {
  private readonly view = UUID.uuid4();
  private listener: Listener | null = null;
  private seconds = 0;
  private closed = false;
  private release: (() => void) | null = null;
  /** What has come before anybody listens; null unless it was watched ahead. */
  private early: [StreamMessage, readonly DataView[]][] | null = null;

  constructor(
    private readonly link: KernelLink,
    private readonly run: string,
    private readonly all: Map<string, CommChannel>,
    private readonly memory: PageMemory,
  ) {}

  /** Whether there is something to show before the kernel has said a word. */
  get remembers(): boolean {
    return this.memory.recall(this.run) !== null;
  }

  /** Ask for a snapshot before anybody listens: with the first words to the kernel. */
  ahead(): void {
    this.early = [];
    this.all.set(this.view, this);
    // Unless the comms are about to be opened: then the link says it with the first words.
    this.watch();
  }

  async open(listener: Listener): Promise<void> {
    this.listener = listener;
    this.release = this.memory.keep(this.run, () => listener.snapshot());
    const before = this.memory.recall(this.run);
    if (before !== null) listener.message(before.message, before.buffers);
    await this.link.expect();
    // It may have been closed in the meantime.
    if (!this.closed) this.all.set(this.view, this);
  }

  hello(): void {
    const { listener, early } = this;
    if (listener === null || early === null) {
      this.watch();
      return;
    }
    // The snapshot was asked for ahead, and has come or is on its way.
    this.early = null;
    for (const message of early) listener.message(...message);
  }

  private watch(): void {
    this.link.send({ type: "watch", view: this.view, run: this.run, seconds: this.seconds });
  }

  command(id: number, command: string, arguments_: Record<string, unknown>): void {
    void this.link.command(this.run, command, arguments_).then((answer) => {
      this.listener?.answer(id, answer);
    });
  }

  pace(seconds: number): void {
    if (seconds === this.seconds) return;
    this.seconds = seconds;
    if (this.all.has(this.view)) this.link.send({ type: "pace", view: this.view, seconds });
  }

  /** Returns whether the overview had another state of the run than the view has now. */
  receive(content: StreamMessage, buffers: readonly DataView[]): boolean {
    if (content.type === "snapshot") this.memory.forget(this.run);
    if (this.early === null) this.listener?.message(content, buffers);
    else this.early.push([content, buffers]);
    return this.link.overview.note(this.run, content.state.run?.state);
  }

  close(): void {
    this.closed = true;
    this.release?.();
    this.listener = null;
    if (this.all.delete(this.view)) this.link.send({ type: "unwatch", view: this.view });
  }
}
