/** What the charts of one view have in common: how they are drawn, what is on view, the cursor. */

import type { Range } from "./charts-scale";
import { type ChartOptions, DEFAULT_OPTIONS } from "./curves";

export class ChartState {
  options: ChartOptions = { ...DEFAULT_OPTIONS };
  /** The part of x that was chosen; null is all there is, as it grows. */
  zoom: Range | null = null;
  /** Curves that were switched off, by `keyOf`. */
  readonly hidden = new Set<string>();
  /** Where the cursor is on x; null if it is nowhere. */
  cursor: number | null = null;
  private readonly followers = new Set<(x: number | null) => void>();

  /** `changed` is called when the charts are to be drawn again. */
  constructor(readonly changed: () => void) {}

  change(options: Partial<ChartOptions>): void {
    // What was chosen of one axis means nothing on another.
    if (options.axis !== undefined && options.axis !== this.options.axis) this.zoom = null;
    this.options = { ...this.options, ...options };
    this.changed();
  }

  look(zoom: Range | null): void {
    this.zoom = zoom;
    this.changed();
  }

  toggle(key: string): void {
    if (!this.hidden.delete(key)) this.hidden.add(key);
    this.changed();
  }

  /** Move the cursor in all charts. */
  point(x: number | null): void {
    if (x === this.cursor) return;
    this.cursor = x;
    for (const follow of this.followers) follow(x);
  }

  /** Be told where the cursor is; returns how to end that. */
  follow(follower: (x: number | null) => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}
