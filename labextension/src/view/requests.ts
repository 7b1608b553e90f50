/** The life of a command as this view knows it: sent, answered, asked, in force or refused. Pure. */

import { type CommandEntry, hasEnded } from "./model";
import { t } from "./text";
import { word } from "./words";

export type ControlName =
  | "pause"
  | "resume"
  | "stop"
  | "repartition"
  | "combiner"
  | "sync"
  | "codec"
  | "learning-rate"
  | "sync-interval"
  | "chaos";

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

/** The kernel's details may end with when a command applies, which we say ourselves. */
const WHEN = /[,\s]*(at each worker's next milestone|at once|at the end of the epoch)?[,\s]*$/;

function effect(control: ControlName): string {
  switch (control) {
    case "resume":
      return t("at once");
    case "repartition":
      return t("at the end of the epoch");
    default:
      return t("at each worker's next milestone");
  }
}

/** Of these only the later one is worth a note. */
const RIVALS: Partial<Record<ControlName, ControlName>> = { pause: "resume", resume: "pause" };

/** Whether an entry of the run's commands, from whatever view or cell, is this control's. */
export function concerns(control: ControlName, { command, detail }: CommandEntry): boolean {
  switch (control) {
    case "combiner":
      return command === "swap combiner";
    case "learning-rate":
      return command === "set" && detail.includes("learning_rate");
    case "sync":
      return command === "set" && /\bsync=/.test(detail);
    case "codec":
      return command === "set" && detail.includes("codec=");
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
  return ok ? t("asked; applies %1", text) : t("refused: %1", text);
}

/** What stands next to a control. */
export function note(
  control: ControlName,
  request: Request | null,
  entries: readonly CommandEntry[],
  now: number,
): string {
  if (request?.answer === null) {
    return now - request.sent > SLOW ? t("sent; waits for the running cell") : t("sent");
  }
  const entry = latest(control, entries);
  const rival = latest(RIVALS[control], entries);
  if (rival && rival.time > Math.max(entry?.time ?? -1, request?.before ?? -1)) return "";
  const news = entry !== null && (request === null || entry.time > request.before);
  if (!news) return request ? answered(request.answer) : "";
  return entered(entry, effect(control));
}

function entered({ detail, stage }: CommandEntry, when: string): string {
  const what = detail.replace(WHEN, "");
  switch (stage) {
    case "asked":
      return what ? t("asked (%1); applies %2", what, when) : t("asked; applies %1", when);
    case "in force":
      return what ? t("in force (%1)", what) : t("in force");
    case "refused":
      return detail ? t("refused: %1", detail) : t("refused");
  }
}

/** Why a control has no use now; empty if it has. */
export function unavailable(control: ControlName, state: string, hasRate: boolean): string {
  if (state === "failed") return t("the run has failed");
  if (hasEnded(state)) return t("the run has ended (%1)", word(state));
  if (state === "stopping") return t("the run is stopping");
  if (control === "pause" && state === "paused") return t("the run is paused already");
  if (control === "resume" && state !== "paused") return t("the run is not paused");
  if (control === "learning-rate" && !hasRate)
    return t("the program's learning rate is no variable");
  return "";
}
