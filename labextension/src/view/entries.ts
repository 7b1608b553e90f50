/** The commands of a run, as the kernel tells them: the latest stage of each. Pure. */

import type { CommandEntry } from "./model";

/** Entries that are kept, the latest. */
export const MAX_COMMANDS = 50;

/** A command's later stage replaces its earlier one. */
export function mergeCommands(old: CommandEntry[], fresh: CommandEntry[]): CommandEntry[] {
  const merged = [...old];
  for (const entry of fresh) {
    const at = merged.findIndex((e) => e.time === entry.time && e.command === entry.command);
    if (at < 0) merged.push(entry);
    else merged[at] = entry;
  }
  return merged.slice(-MAX_COMMANDS);
}
