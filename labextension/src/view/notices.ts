/** What a run waits for, and who was lost: sentences that the kernel tells. */

import { hasEnded, type RunInfo } from "./model";

export interface Notice {
  sign: string;
  text: string;
}

const KINDS = [
  ["✕", "lost"],
  ["◔", "waits"],
  ["…", "pending"],
] as const;

/** Who was lost, what a run has waited for too long, and what waits for the end of the epoch. */
export function notices(run: Pick<RunInfo, "state" | "lost" | "waits" | "pending">): Notice[] {
  if (hasEnded(run.state)) return [];
  return KINDS.flatMap(([sign, name]) => (run[name] ?? []).map((text) => ({ sign, text })));
}

/** A run that waits before it has begun is in a queue. */
export function isQueued({ state, waits }: Pick<RunInfo, "state" | "waits">): boolean {
  return state === "queued" || (state === "starting" && (waits ?? []).length > 0);
}
