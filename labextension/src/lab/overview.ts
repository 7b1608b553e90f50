/** The runs of one kernel and its cluster, kept up to date message by message. No DOM. */

import type { Cluster, ClusterRow, OverviewMessage, RunRow } from "./protocol";
import { hasEnded } from "../view/model";

export class Overview {
  cluster: Cluster | null = null;
  /** TensorFlow clusters that cells have started, oldest first. */
  clusters: readonly ClusterRow[] = [];
  private readonly rows = new Map<string, RunRow>();
  private seq = -1;

  /** Oldest first. */
  get runs(): RunRow[] {
    return [...this.rows.values()].sort((a, b) => a.number - b.number);
  }

  get active(): RunRow[] {
    return this.runs.filter(({ state }) => !hasEnded(state));
  }

  /** The one that commands act on: the newest active, else the newest. */
  get current(): RunRow | null {
    return this.active.at(-1) ?? this.runs.at(-1) ?? null;
  }

  /** The cluster that commands act on: the newest active, else the newest. */
  get currentCluster(): ClusterRow | null {
    return this.clusters.filter(({ active }) => active).at(-1) ?? this.clusters.at(-1) ?? null;
  }

  /** Whether anything of ours runs there. */
  get busy(): boolean {
    return this.active.length > 0 || this.clusters.some(({ active }) => active);
  }

  run(id: string): RunRow | null {
    return this.rows.get(id) ?? null;
  }

  /**
   * Take the state that a view of a run has heard of: it comes sooner, and commands act on what is
   * seen. How a run has ended comes with all the rest. Returns whether it is news.
   */
  note(id: string, state: string | undefined): boolean {
    const row = this.rows.get(id);
    if (!row || !state || row.state === state) return false;
    if (hasEnded(row.state) || hasEnded(state)) return false;
    this.rows.set(id, { ...row, state });
    return true;
  }

  /** Take one message that has not come before; false if others before it were lost. */
  apply(message: OverviewMessage): boolean {
    // Two connections to a kernel, one after the other, may bring the same.
    if (!message.whole && message.seq <= this.seq) return true;
    if (!message.whole && message.seq !== this.seq + 1) return false;
    if (message.whole) this.rows.clear();
    this.seq = message.seq;
    this.cluster = message.cluster;
    this.clusters = message.clusters ?? [];
    for (const row of message.runs) this.rows.set(row.id, row);
    return true;
  }
}
