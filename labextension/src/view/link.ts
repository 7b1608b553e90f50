/** One view's conversation with the kernel: hellos until a snapshot comes, and numbered commands. */

import type { Channel } from "./channel";

/** Milliseconds until an unanswered hello is said again; doubles, as each one costs a snapshot. */
const PATIENCE = 5000;
const MAX_PATIENCE = 60_000;

export class Link {
  private opened = false;
  private lastId = 0;
  /** When to say hello again; null while nothing is missing. */
  private again: number | null = null;
  private patience = PATIENCE;
  /** Commands that were given before the channel was open. */
  private waiting: [number, string, Record<string, unknown>][] = [];

  constructor(
    private readonly channel: Channel,
    private readonly now: () => number,
  ) {}

  /** The channel is open: ask for a snapshot. */
  begin(): void {
    this.opened = true;
    this.again = null;
    this.ask();
    for (const command of this.waiting.splice(0)) this.channel.command(...command);
  }

  /** Ask for a snapshot, unless one is on its way. */
  ask(): void {
    if (this.again !== null && this.now() < this.again) return;
    this.again = this.now() + this.patience;
    this.patience = Math.min(MAX_PATIENCE, 2 * this.patience);
    if (this.opened) this.channel.hello();
  }

  /** Call as time passes: a hello may get lost. */
  tick(): void {
    if (this.opened && this.again !== null) this.ask();
  }

  /** A snapshot came. */
  served(): void {
    this.again = null;
    this.patience = PATIENCE;
  }

  /** Send a command, as soon as it will be heard; its number comes back with the answer. */
  command(command: string, arguments_: Record<string, unknown>): number {
    this.lastId += 1;
    if (this.opened) this.channel.command(this.lastId, command, arguments_);
    else this.waiting.push([this.lastId, command, arguments_]);
    return this.lastId;
  }

  close(): void {
    this.opened = false;
    this.waiting = [];
    this.channel.close();
  }
}
