/** The life of a command as this view knows it: sent, answered, asked, in force or refused. Pure. */

import { type CommandEntry, hasEnded } from "./model";
import { t } from "./text";
import { word } from "./words";

export type ControlName =
  | "toggle"
  | "stop"
  | "repartition"
  | "combiner"
  | "sync"
  | "codec"
  | "learning-rate"
  | "sync-interval"
  | "chaos";

/** When a command takes effect. */
export type When = "now" | "milestone" | "epoch";

export interface Answer {
  ok: boolean;
  /** Why it was refused. */
  text: string;
  when?: When;
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

function applies(when: When): string {
  switch (when) {
    case "now":
      return t("at once");
    case "epoch":
      return t("at the end of the epoch");
    case "milestone":
      return t("at each worker's next milestone");
  }
}

/** Which setting of `set` each control changes. */
const SETTINGS: Partial<Record<ControlName, string>> = {
  sync: "sync",
  codec: "codec",
  "learning-rate": "learning_rate",
  "sync-interval": "sync_interval",
};

/** Whether an entry of the run's commands, from whatever view or cell, is this control's. */
export function concerns(control: ControlName, { command, changes }: CommandEntry): boolean {
  if (control === "toggle") return command === "pause" || command === "resume";
  if (control === "combiner") return command === "swap combiner";
  const setting = SETTINGS[control];
  if (setting !== undefined) return command === "set" && setting in changes;
  return command === control;
}

export function latest(
  control: ControlName,
  entries: readonly CommandEntry[],
): CommandEntry | null {
  return entries.findLast((entry) => concerns(control, entry)) ?? null;
}

function answered({ ok, text, when }: Answer): string {
  return ok ? t("asked; applies %1", applies(when ?? "milestone")) : t("refused: %1", text);
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
  const news = entry !== null && (request === null || entry.time > request.before);
  if (!news) return request ? answered(request.answer) : "";
  return entered(control, entry);
}

function entered(control: ControlName, entry: CommandEntry): string {
  const { command, changes, detail, stage, when } = entry;
  // The toggle stands for two commands; of the others the control's own label says which.
  const what = control === "toggle" ? word(command) : (changes[SETTINGS[control] ?? ""] ?? detail);
  switch (stage) {
    case "asked":
      return what
        ? t("asked (%1); applies %2", what, applies(when))
        : t("asked; applies %1", applies(when));
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
  if (control === "learning-rate" && !hasRate)
    return t("the program's learning rate is no variable");
  return "";
}
