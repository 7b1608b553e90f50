/** What the kernel tells of a TensorFlow cluster; the types of `nodes/snapshot.py`. */

import type { WorkerError } from "./model";
import { t } from "./text";

export interface ClusterNode {
  /** Its job and task, such as worker:0. */
  name: string;
  host: string;
  state: string;
  /** That its function has taken. */
  rows: number;
  /** Those that it may see, such as 0,1; empty for none. */
  gpus: string;
  /** The last of its output. */
  lines: string[];
}

export interface ClusterFeed {
  data: string;
  /** From 1; 0 before the first. */
  epoch: number;
  epochs: number;
  /** Of all rows of an epoch, and those of them that were fed. */
  partitions: number;
  fed: number;
  over: boolean;
}

export interface ClusterState {
  id: string;
  number: number;
  state: string;
  nodes: ClusterNode[];
  /** null where the nodes read their data themselves. */
  feed: ClusterFeed | null;
  tensorboard: string | null;
  /** Why it has begun again, and what it does without. */
  notes: string[];
  failure: WorkerError | null;
  elapsed: number;
}

export interface ClusterMessage {
  type: "cluster";
  /** Whether some of it still runs. */
  active: boolean;
  state: ClusterState;
}

/** What connects a view to its kernel. */
export interface ClusterChannel {
  /** Begin to listen; resolves once requests will be heard. */
  open(told: (message: ClusterMessage) => void, refused: (why: string) => void): Promise<void>;
  /** Ask how the cluster stands. */
  hello(): void;
  stop(): void;
  close(): void;
}

/** The share that was fed, from 0 to 1. */
export function fedShare({ epoch, epochs, partitions, fed, over }: ClusterFeed): number {
  if (over) return 1;
  if (epoch === 0 || epochs === 0) return 0;
  return (epoch - 1 + (partitions > 0 ? fed / partitions : 0)) / epochs;
}

export function feedText(feed: ClusterFeed): string {
  if (feed.epoch === 0) return feed.over ? t("not fed") : t("not fed yet");
  const place = t("epoch %1 of %2", feed.epoch, feed.epochs);
  return t("%1, %2 of %3 partitions", place, feed.fed, feed.partitions);
}

const SENTENCES: Partial<Record<string, (number: number, nodes: string) => string>> = {
  starting: (...said) => t("Cluster %1 is starting: %2.", ...said),
  running: (...said) => t("Cluster %1 is running: %2.", ...said),
  stopping: (...said) => t("Cluster %1 is stopping: %2.", ...said),
  finished: (...said) => t("Cluster %1 has finished: %2.", ...said),
  stopped: (...said) => t("Cluster %1 was stopped: %2.", ...said),
  failed: (...said) => t("Cluster %1 has failed: %2.", ...said),
};

/** One sentence on where it stands, for a screen reader. */
export function clusterSentence({ number, state, nodes, notes, failure }: ClusterState): string {
  const running = nodes.filter((node) => node.state === "running").length;
  const said = t("%1 of %2 nodes run", running, nodes.length);
  const sentence = SENTENCES[state]?.(number, said) ?? `${state}: ${said}`;
  return [sentence, ...notes, ...(failure ? [failure.message] : [])].join(" ");
}
