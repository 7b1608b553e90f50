import type { RunInfo } from "./model";

/** Whether all workers of the run make each step together. */
export function inLockstep(run: Pick<RunInfo, "lockstep"> | null): boolean {
  return run?.lockstep === true;
}

/** Whether a combiner merges updates one by one, so that the server counts how stale each is. */
export function hasStaleness(run: Pick<RunInfo, "lockstep" | "combiner"> | null): boolean {
  return !inLockstep(run) && run?.combiner !== null;
}
