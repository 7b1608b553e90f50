/** The life of a command as this view knows it: sent, answered, asked, in force or refused. Pure. */

import { type CommandEntry, hasEnded, type RunInfo } from "./model";
import { t } from "./text";
import { word } from "./words";

/** What a control asks for: one command, or the one of several that the run's state allows. */
export interface Ask {
  commands: readonly string[];
  /** Which setting it changes, where the command changes several. */
  setting?: string;
}

export const TOGGLE: Ask = { commands: ["pause", "unpause"] };
export const STOP: Ask = { commands: ["stop"] };
export const CHAOS: Ask = { commands: ["chaos"] };

/** One argument of a command, as a field of a form. */
export interface Argument {
  /** Also of what is in force now, in `RunInfo`. */
  name: string;
  label: string;
  kind: "int" | "float" | "str";
  /** What to choose from; empty if it is to be typed. */
  choices: readonly string[];
  /** The same in groups, where there are many; not in documents of older versions. */
  groups?: Record<string, readonly string[]>;
  /** A sentence about each, where there is one; not in documents of older versions. */
  about?: Partial<Record<string, string>>;
  /** One of several settings that its command changes. */
  optional: boolean;
}

/** A command that the run obeys. */
export interface Action {
  name: string;
  /** What stands on its button. */
  verb: string;
  arguments: readonly Argument[];
}

/** When a command takes effect. */
export type When = "now" | "milestone" | "epoch";

export interface Answer {
  ok: boolean;
  /** Why it was refused. */
  text: string;
  when?: When;
}

/** A command that was sent from here. */
export interface Request {
  command?: string;
  sent: number;
  /** The time of the last entry when the command was sent: later ones are news. */
  before: number;
  answer: Answer | null;
}

/** Answers take milliseconds where the kernel has subshells; else they wait for its cell. */
export const SLOW = 1000;

/** When that is, in words. */
export function applies(when: When): string {
  switch (when) {
    case "now":
      return t("at once");
    case "epoch":
      return t("at the end of the epoch");
    case "milestone":
      return t("at each worker's next milestone");
  }
}

/** Whether an entry of the run's commands, from whatever view or cell, is this control's. */
export function concerns({ commands, setting }: Ask, { command, changes }: CommandEntry): boolean {
  return commands.includes(command) && (setting === undefined || setting in changes);
}

export function latest(ask: Ask, entries: readonly CommandEntry[]): CommandEntry | null {
  return entries.findLast((entry) => concerns(ask, entry)) ?? null;
}

function answered({ ok, text, when }: Answer): string {
  return ok ? t("asked; applies %1", applies(when ?? "milestone")) : t("refused: %1", text);
}

/** The entry that tells what became of a request, or of what somebody else asked; null if none. */
function news(ask: Ask, request: Request | null, entries: readonly CommandEntry[]) {
  const entry = latest(ask, entries);
  return entry !== null && (request === null || entry.time > request.before) ? entry : null;
}

/** What stands beside a control until what it asked for is in force. */
export function note(
  ask: Ask,
  request: Request | null,
  entries: readonly CommandEntry[],
  now: number,
): string {
  if (request?.answer === null) {
    return now - request.sent > SLOW ? t("sent; waits for the running cell") : t("sent");
  }
  const entry = news(ask, request, entries);
  if (entry === null) return request ? answered(request.answer) : "";
  const what = entry.changes[ask.setting ?? ""] ?? entry.detail;
  switch (entry.stage) {
    case "asked":
      return what
        ? t("asked (%1); applies %2", what, applies(entry.when))
        : t("asked; applies %1", applies(entry.when));
    case "in force":
      return "";
    case "refused":
      return entry.detail ? t("refused: %1", entry.detail) : t("refused");
  }
}

/** What became of a request: null while that is open. */
export function outcome(
  ask: Ask,
  request: Request,
  entries: readonly CommandEntry[],
): "in force" | "refused" | null {
  if (request.answer === null) return null;
  if (!request.answer.ok) return "refused";
  const stage = news(ask, request, entries)?.stage ?? "asked";
  return stage === "asked" ? null : stage;
}

/** The commands that the run obeys; none if an older version does not say. */
export function actionsOf({ actions }: Pick<RunInfo, "actions">): readonly Action[] {
  return actions ?? [];
}

type Rates = Partial<Pick<RunInfo, "learning_rate" | "own_rate">>;

/** The learning rate in force; null where it is unknown, or follows a schedule of the program. */
export function rateOf(run: Rates): number | null {
  return run.learning_rate ?? run.own_rate ?? null;
}

/** What is in force, by the names of arguments; of the strategy its name alone, as a choice has it. */
export function inForce(run: Pick<RunInfo, "strategy"> & Rates): Partial<Record<string, unknown>> {
  return { ...run, strategy: run.strategy?.split(" ")[0], learning_rate: rateOf(run) };
}

/** Whether the run obeys what a control asks for. */
export function isOffered(run: Pick<RunInfo, "actions">, { commands }: Ask): boolean {
  return actionsOf(run).some(({ name }) => commands.includes(name));
}

type Able = Pick<RunInfo, "actions" | "state" | "has_learning_rate">;

/** Why a control has no use now; empty if it has. */
export function unavailable(run: Able, ask: Ask): string {
  const { state } = run;
  if (state === "failed") return t("the run has failed");
  if (hasEnded(state)) return t("the run has ended (%1)", word(state));
  if (state === "stopping") return t("the run is stopping");
  if (!isOffered(run, ask)) return t("this run cannot do that");
  if (lacksRate(run, ask)) return t("the program's learning rate is not a variable");
  return "";
}

/** Whether a control sets a learning rate that is fixed in the program. */
export function lacksRate(run: Pick<RunInfo, "has_learning_rate">, { setting }: Ask): boolean {
  return setting === "learning_rate" && !run.has_learning_rate;
}
