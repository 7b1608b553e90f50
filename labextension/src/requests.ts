/** The life of a command as this view knows it: sent, answered, asked, in force or refused. Pure. */

import { type CommandEntry, hasEnded } from "./model";

export type ControlName =
  "pause" | "resume" | "stop" | "repartition" | "combiner" | "learning-rate" | "sync-interval";

export interface Answer {
  ok: boolean;
  text: string;
}

/** The latest command of one control that was sent from here. */
export interface Request {
  sent: number;
  /** The time of the last entry when the command was sent: later ones are news. */
  before: number;
  answer: Answer | null;
}

/** Answers take milliseconds where the kernel has subshells; else they wait for its cell. */
export const SLOW = 1000;

const MILESTONE = "at each worker's next milestone";

const EFFECT: Record<ControlName, string> = {
  pause: MILESTONE,
  resume: "at once",
  stop: MILESTONE,
  repartition: "at the end of the epoch",
  combiner: MILESTONE,
  "learning-rate": MILESTONE,
  "sync-interval": MILESTONE,
};

/** Of these only the later one is worth a note. */
const RIVALS: Partial<Record<ControlName, ControlName>> = { pause: "resume", resume: "pause" };

/** Whether an entry of the run's commands, from whatever view or cell, is this control's. */
export function concerns(control: ControlName, { command, detail }: CommandEntry): boolean {
  switch (control) {
    case "combiner":
      return command === "swap combiner";
    case "learning-rate":
      return command === "set" && detail.includes("learning_rate");
    case "sync-interval":
      return command === "set" && detail.includes("sync_interval");
    default:
      return command === control;
  }
}

export function latest(
  control: ControlName | undefined,
  entries: readonly CommandEntry[],
): CommandEntry | null {
  if (control === undefined) return null;
  return entries.findLast((entry) => concerns(control, entry)) ?? null;
}

function answered({ ok, text }: Answer): string {
  return ok ? `asked; applies ${text}` : `refused: ${text}`;
}

/** What stands next to a control. */
export function note(
  control: ControlName,
  request: Request | null,
  entries: readonly CommandEntry[],
  now: number,
): string {
  if (request?.answer === null) {
    return now - request.sent > SLOW ? "sent; waits for the running cell" : "sent";
  }
  const entry = latest(control, entries);
  const rival = latest(RIVALS[control], entries);
  if (rival && rival.time > Math.max(entry?.time ?? -1, request?.before ?? -1)) return "";
  const news = entry !== null && (request === null || entry.time > request.before);
  if (!news) return request ? answered(request.answer) : "";
  // The detail may say when; so do we.
  const what = entry.detail.replace(EFFECT[control], "").replace(/[,\s]+$/, "");
  const detail = what ? ` (${what})` : "";
  switch (entry.stage) {
    case "asked":
      return `asked${detail}; applies ${EFFECT[control]}`;
    case "in force":
      return `in force${detail}`;
    case "refused":
      return `refused${entry.detail ? `: ${entry.detail}` : ""}`;
  }
}

/** Why a control has no use now; empty if it has. */
export function unavailable(control: ControlName, state: string, hasRate: boolean): string {
  if (hasEnded(state)) return `the run has ${state === "failed" ? "failed" : `ended (${state})`}`;
  if (state === "stopping") return "the run is stopping";
  if (control === "pause" && state === "paused") return "the run is paused already";
  if (control === "resume" && state !== "paused") return "the run is not paused";
  if (control === "learning-rate" && !hasRate) return "the program's learning rate is no variable";
  return "";
}
