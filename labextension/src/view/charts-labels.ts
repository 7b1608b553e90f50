/** Where the labels of flags stand, and how much of them. Pure. */

import type { Flag } from "./charts-marks";
import type { Curve } from "./curves";

/** Pixels between two flags that have a label each. */
const APART = 12;
/** Pixels between a flag's line and its label. */
const OFF = 2;

export interface Label {
  x: number;
  text: string;
  flag: Flag;
}

interface Edges {
  from: number;
  to: number;
}

/**
 * One label for each group of flags that are close: to the right of the line, or to its left, and
 * with all that is told; where there is no room, the signs alone. `flags` are in the order of x.
 */
export function labels(
  flags: readonly Flag[],
  edges: Edges,
  width: (text: string) => number,
): Label[] {
  const groups = grouped(flags);
  const found: Label[] = [];
  let free = edges.from;
  groups.forEach((group, i) => {
    const last = group[group.length - 1];
    const end = i + 1 < groups.length ? groups[i + 1][0].x : edges.to;
    for (const text of wordings(group)) {
      const right = last.x + OFF;
      const left = group[0].x - OFF - width(text);
      const x = right + width(text) < end ? right : left > free ? left : null;
      if (x === null) continue;
      found.push({ x, text, flag: last });
      free = Math.max(last.x, x + width(text)) + OFF;
      return;
    }
    free = last.x + OFF;
  });
  return found;
}

/** From where to where a curve goes between two places; null where it is not there. */
export function heights(
  { x, values }: Pick<Curve, "x" | "values">,
  from: number,
  to: number,
): [low: number, high: number] | null {
  const found: number[] = [];
  for (let i = 0; i < values.length && (i === 0 || x[i - 1] <= to); i++) {
    const [before, value] = [i === 0 ? null : values[i - 1], values[i]];
    if (value !== null && x[i] >= from && x[i] <= to) found.push(value);
    if (before === null || value === null || x[i] < from || x[i] === x[i - 1]) continue;
    // Where its line comes in, and where it goes out.
    for (const at of [from, to]) {
      const share = (at - x[i - 1]) / (x[i] - x[i - 1]);
      if (share >= 0 && share <= 1) found.push(before + share * (value - before));
    }
  }
  return found.length === 0 ? null : [Math.min(...found), Math.max(...found)];
}

function grouped(flags: readonly Flag[]): Flag[][] {
  const groups: Flag[][] = [];
  for (const flag of flags) {
    const group = groups.at(-1);
    if (group && flag.x - group[group.length - 1].x < APART) group.push(flag);
    else groups.push([flag]);
  }
  return groups;
}

/** From all to little; nothing is cut in its middle. */
function wordings(group: readonly Flag[]): string[] {
  const signs = [...new Set(group.map(({ sign }) => sign))].join("");
  const told = group.map(({ label }) => label).filter((label) => label !== "");
  if (told.length === 0) return [signs];
  const some = told.length > 1 ? [`${signs} ${told[0]} +${told.length - 1}`] : [];
  return [`${signs} ${told.join(", ")}`, ...some, signs];
}
