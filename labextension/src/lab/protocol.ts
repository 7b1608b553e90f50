/**
 * What a kernel with tos_notebook tells a page, beside the views' own snapshots and deltas.
 *
 * Requests go over the comm `tos.control`, which carries only their answers back; everything that
 * the kernel says by itself comes over `tos.stream`.
 */

import type { RunInfo, Totals } from "../view/model";

/** A Spark application, as the driver sees it. */
export interface Cluster {
  master: string;
  application: string;
  /** Registered ones; a local Spark counts as one. */
  executors: number;
  cores: number;
  /** Spark's own page, as the kernel's machine would open it; null if it is switched off. */
  ui: string | null;
  versions: Record<string, string>;
}

/** One run, in short. */
export interface RunRow
  extends
    Omit<RunInfo, "batch_size" | "error">,
    Omit<Totals, "staleness_mean" | "recent_staleness" | "recent_workers" | "bytes"> {
  executors: { active: number; total: number };
  /** The training loss over time, few points, oldest first. */
  spark: (number | null)[];
  error: string | null;
  /** The cell whose execution started the run, where the front end had named it. */
  cell: string | null;
  /** A person has taken it out of the panel; not in rows of older kernels. */
  hidden?: boolean;
}

/** A TensorFlow cluster that a cell started, in short. */
export interface ClusterRow {
  id: string;
  number: number;
  state: string;
  /** Whether some of it still runs. */
  active: boolean;
  /** Nodes whose function runs, and all. */
  running: number;
  nodes: number;
  error: string | null;
  cell: string | null;
}

/** Unless `whole`, `runs` holds only those that changed; `clusters` holds all, oldest first. */
export interface OverviewMessage {
  type: "overview";
  seq: number;
  whole: boolean;
  cluster: Cluster | null;
  runs: RunRow[];
  clusters?: ClusterRow[];
}

/** A saved output of a run holds this: which run it is, and what is known of it. */
export const RUN_MIME = "application/vnd.tos-notebook.run+json";

export interface RunReference {
  run: string;
  number: number;
  /** Not in notebooks of older versions; read by `snapshotOf`. */
  saved?: unknown;
}

/** The same of a TensorFlow cluster. */
export const CLUSTER_MIME = "application/vnd.tos-notebook.cluster+json";

export interface ClusterReference {
  cluster: string;
}

/** What an output shows, by its id. */
export type Shown = Pick<RunReference, "run"> | ClusterReference;

/** Several representations of one output, by MIME type. */
export type Bundle = Record<string, unknown>;
