/** A run in few words: what panel, status bar, marks and notices call it and say of it. */

import type { TranslationBundle } from "@jupyterlab/translation";

import { number, roughly, shortened } from "../view/format";
import { hasEnded } from "../view/model";
import { word } from "../view/words";
import type { Kernel } from "./kernels";
import type { RunRow } from "./protocol";

/** Characters of a name. */
const MOST = 24;

/** The run's own state; or "lost" if it was active and its kernel is gone, "queued" if it waits. */
export function stateOf(kernel: Kernel, row: RunRow): string {
  if (kernel.state === "lost" && !hasEnded(row.state)) return "lost";
  return row.state === "starting" && row.waits?.length ? "queued" : row.state;
}

/** To people a run that is running trains. */
export function stateWord(state: string): string {
  return word(state === "running" ? "training" : state);
}

/** Its name, or else its number, as in the middle of a sentence. */
export function called(row: Pick<RunRow, "name" | "number">, trans: TranslationBundle): string {
  return row.name ? shortened(row.name, MOST) : trans.__("run %1", row.number);
}

/** The same at the beginning of a sentence. */
export function titled(row: Pick<RunRow, "name" | "number">, trans: TranslationBundle): string {
  return row.name ? shortened(row.name, MOST) : trans.__("Run %1", row.number);
}

/** What a magic calls it: its name where that is a word that no other run has, else its number. */
export function argument({ name, number }: RunRow, all: readonly RunRow[]): string {
  const usable = name && /^[\p{L}_][\p{L}\p{N}_.-]*$/u.test(name);
  const alone = all.filter((row) => row.name === name).length === 1;
  return usable && alone ? name : String(number);
}

/** The latest evaluation of the model that the user gets. */
export function validated(row: RunRow, trans: TranslationBundle): string[] {
  return Object.entries(row.validation ?? {}).map(([name, value]) =>
    trans.__("validation %1 %2", name, number(value)),
  );
}

/** What there is to know first: the evaluation, the loss only where there is no other value. */
export function result(row: RunRow, trans: TranslationBundle): string {
  const evaluations = Object.values(row.validation ?? {});
  if (evaluations.length > 0) return trans.__("val %1", number(evaluations[0]));
  return row.loss === null ? "" : trans.__("loss %1", number(row.loss));
}

/** Such as `~40 s`; empty where it is not known. */
export function toGo({ eta }: Pick<RunRow, "eta">, trans: TranslationBundle): string {
  return eta === null ? "" : roughly(eta, (text, ...values) => trans.__(text, ...values));
}

/** What a person should know of how it learns; empty if all is well. */
export function concern({ warning }: RunRow, trans: TranslationBundle): string {
  if (!warning) return "";
  if (warning.kind === "overfitting") return trans.__("overfits since epoch %1", warning.epoch);
  return warning.factor === null
    ? trans.__("diverges")
    : trans.__("diverges: loss %1 times its lowest", number(warning.factor));
}
