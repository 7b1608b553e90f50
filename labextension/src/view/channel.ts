/** What a view needs of whatever connects it to the kernel. */

import type { Snapshot, StreamMessage } from "./model";
import type { Answer } from "./requests";

export interface Listener {
  /** A snapshot or a delta of the run. */
  message: (content: StreamMessage, buffers: readonly DataView[]) => void;
  /** The kernel's answer to a command, by the number that it was sent with. */
  answer: (id: number, answer: Answer) => void;
  /** What it has been told; null if nothing. */
  snapshot: () => Snapshot | null;
}

export interface Channel {
  /** Begin to listen; resolves once requests will be heard. */
  open(listener: Listener): Promise<void>;
  /** Ask for a snapshot, which deltas follow. */
  hello(): void;
  command(id: number, command: string, arguments_: Record<string, unknown>): void;
  close(): void;
}
