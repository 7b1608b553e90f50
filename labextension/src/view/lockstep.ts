import type { RunInfo } from "./model";

/** Whether all workers of the run make each step together. */
export function inLockstep(run: Pick<RunInfo, "lockstep"> | null): boolean {
  return run?.lockstep === true;
}
