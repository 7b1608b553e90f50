/** What was steered, or went wrong, as marks and bands over the time of a run. Pure. */

import { AXIS_ROWS, type CommandEntry, type RunModel } from "./model";
import type { Axis } from "./curves";
import { t } from "./text";
import { inPlain } from "./words";

/** Something that happened at a time. */
export interface Flag {
  /** On the chart's own axis. */
  x: number;
  time: number;
  sign: "⚑" | "↻" | "✕";
  /** In a few letters. */
  label: string;
  /** In words. */
  text: string;
}

/** Something that lasted. */
export interface Band {
  from: number;
  to: number;
  kind: "pause" | "chaos";
}

export interface Overlay {
  flags: Flag[];
  bands: Band[];
}

type Marked = Pick<RunModel, "commands" | "marks" | "workers" | "series" | "run">;

const SIGNS = { retry: "↻", lost: "✕", failed: "✕" } as const;
const [TIME] = AXIS_ROWS.map((_, i) => i);

/** What begins a pause or ends it: a band shows both. */
const PAUSES = new Set(["pause", "resume", "unpause"]);

/** When a command took effect: an entry's own time is that of the request. */
function since({ time, since: at }: CommandEntry): number {
  return at ?? time;
}

function inForce({ commands }: Pick<RunModel, "commands">): CommandEntry[] {
  return commands.filter(({ stage }) => stage === "in force");
}

/** What a command changed, in a few letters. */
function label({ command, changes, detail }: CommandEntry): string {
  if (command === "chaos") return detail.startsWith("off") ? t("chaos off") : t("chaos");
  const short = Object.entries(changes).map(([name, value]) => {
    if (name === "learning_rate") return t("LR %1", value);
    if (name === "sync_interval") return t("every %1", value);
    if (name === "partitions") return t("%1 parts", value);
    return inPlain(value);
  });
  return short.join(", ") || inPlain(detail) || command;
}

/** Seconds after which all rules of chaos have ended by themselves. */
function lasts(detail: string): number {
  const limits = [...detail.matchAll(/for at most ([\d.]+) s/g)].map(([, seconds]) =>
    Number(seconds),
  );
  return limits.length === detail.split("; ").length ? Math.max(...limits) : Infinity;
}

/** Pauses, and times in which something went wrong on purpose; what lasts yet ends at `until`. */
export function bands(model: Pick<Marked, "commands">, until: number): Band[] {
  const found: Band[] = [];
  const open: Partial<Record<Band["kind"], Band>> = {};
  for (const entry of inForce(model)) {
    const chaos = entry.command === "chaos";
    if (!chaos && !PAUSES.has(entry.command)) continue;
    const ends = chaos ? entry.detail.startsWith("off") : entry.command !== "pause";
    const kind = chaos ? "chaos" : "pause";
    const at = since(entry);
    const before = open[kind];
    if (before) before.to = Math.min(before.to, at);
    Reflect.deleteProperty(open, kind);
    if (ends) continue;
    const most = chaos ? lasts(entry.detail) : Infinity;
    const band: Band = { from: at, to: at + most, kind };
    open[kind] = band;
    found.push(band);
  }
  for (const band of Object.values(open)) band.to = Math.min(band.to, Math.max(band.from, until));
  return found;
}

/** Everything that was steered, and every worker that was lost, failed or began again. */
export function flags({ commands, marks, workers }: Omit<Marked, "series" | "run">): Flag[] {
  const steered = inForce({ commands })
    .filter(({ command }) => !PAUSES.has(command))
    .map((entry): Flag => {
      const { command, detail } = entry;
      const time = since(entry);
      const text = detail ? `${command}: ${inPlain(detail)}` : command;
      return { x: time, time, sign: "⚑", label: label(entry), text };
    });
  const wrong = marks.map(({ time, worker, kind, text }): Flag => {
    const partition = workers[worker]?.partition as number | undefined;
    const who = partition === undefined ? "" : t("p%1", partition);
    return { x: time, time, sign: SIGNS[kind], label: who, text: `${who} ${kind}: ${text}`.trim() };
  });
  return [...steered, ...wrong].sort((a, b) => a.time - b.time);
}

/** From times to places on an axis, by the training that was done then. */
function placing({ series }: Pick<Marked, "series">, axis: Axis): (time: number) => number {
  if (axis === "time") return (time) => time;
  const longest = series.find(({ name, split }) => name === "loss" && split === "training");
  if (!longest || longest.points.length === 0) return () => NaN;
  const times = longest.points.column(TIME);
  const places = longest.points.column(AXIS_ROWS.indexOf(axis));
  return (time) => {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < time) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return places[0];
    if (low === times.length) return places[low - 1];
    const share = (time - times[low - 1]) / (times[low] - times[low - 1] || 1);
    return places[low - 1] + share * (places[low] - places[low - 1]);
  };
}

/** Marks and bands where they stand on an axis. */
export function overlay(model: Marked, axis: Axis): Overlay {
  const place = placing(model, axis);
  const until = model.run?.elapsed ?? 0;
  return {
    flags: flags(model)
      .map((flag) => ({ ...flag, x: place(flag.time) }))
      .filter(({ x }) => Number.isFinite(x)),
    // Nothing is trained in a pause: only time shows how long it was.
    bands: bands(model, until)
      .map(({ kind, from, to }) => ({ kind, from: place(from), to: place(to) }))
      .filter(({ from, to }) => to > from),
  };
}

/** Flags in words, one a line. */
export function told(flags: readonly Flag[]): string {
  return flags.map(({ sign, text }) => `${sign} ${text}`).join("\n");
}
