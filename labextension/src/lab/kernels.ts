/** The kernels of open notebooks and consoles, and what is known of each one's runs. */

import type { ISessionContext } from "@jupyterlab/apputils";
import type { ISignal } from "@lumino/signaling";

import type { Channel } from "../view/channel";
import type { Answer } from "../view/requests";
import type { Overview } from "./overview";
import type { Bundle, Shown } from "./protocol";

/**
 * What is known of a kernel.
 *
 * - absent: it has not loaded tos_notebook, as far as we know
 * - opening: the comms are being opened
 * - open: `overview` is up to date
 * - lost: it was open; the kernel was restarted, died or was shut down, `overview` is what it left
 * - closed: its document is; the kernel may keep running, and is met again when the document is opened
 */
export type LinkState = "absent" | "opening" | "open" | "lost" | "closed";

/** One document's kernel. It outlives restarts, and changes of the kernel. */
export interface Kernel {
  /** The session's path: what the layout restorer keeps. */
  readonly path: string;
  readonly name: string;
  readonly state: LinkState;
  readonly overview: Overview;
  /** null while the document is closed. */
  readonly context: ISessionContext | null;
  /** Something of the above changed. At most once a second while nothing but numbers change. */
  readonly changed: ISignal<Kernel, void>;
  command(run: string, command: string, arguments_?: Record<string, unknown>): Promise<Answer>;
  /** Take a run that has ended out of the panel, on every page. */
  hide(run: string): void;
  /** End a TensorFlow cluster. */
  stopCluster(cluster: string): Promise<Answer>;
  /** The still picture of a run or of a cluster, as a saved notebook holds it. */
  picture(shown: Shown): Promise<Bundle | null>;
  /** A channel for a `RunView`. Opens the comms if need be: the caller knows of a run. */
  channel(run: string): RunChannel;
}

export interface RunChannel extends Channel {
  /** Seconds between two messages at least: more while no user looks. */
  pace(seconds: number): void;
}

/** Those of open documents, in the order in which they came. */
export interface Kernels extends Iterable<Kernel> {
  /** A kernel came or went, or one of them changed. */
  readonly changed: ISignal<Kernels, void>;
  /** That of the notebook or console in front, else null. */
  readonly current: Kernel | null;
  find(path: string): Kernel | null;
}
