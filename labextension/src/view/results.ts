/** What was learned, and what is wrong with it, as the kernel tells. Pure. */

import type { RunModel } from "./model";
import { t } from "./text";

export interface Result {
  name: string;
  latest: number | null;
  best: number | null;
  /** Of the best, counted from 1. */
  epoch: number | null;
}

export interface Trouble {
  kind: "diverging" | "overfitting";
  text: string;
  /** The same in few words. */
  brief: string;
  /** The learning rate to set again; null if that is not to blame, or unknown. */
  back: number | null;
}

/** The latest evaluation of each metric, beside its best. */
export function results({ totals }: Pick<RunModel, "totals">): Result[] {
  return Object.entries(totals?.validation ?? {}).map(([name, latest]) => {
    const best = totals?.best?.[name];
    return { name, latest, best: best?.value ?? null, epoch: best?.epoch ?? null };
  });
}

/** What a person should know of the training at once; null if there is nothing. */
export function trouble({
  run,
  totals,
  commands,
}: Pick<RunModel, "run" | "totals" | "commands">): Trouble | null {
  const { kind, epoch, factor } = totals?.warning ?? {};
  if (kind === "overfitting") {
    const text = t("overfitting since epoch %1", epoch ?? "–");
    return { kind, text, brief: t("overfits"), back: null };
  }
  if (kind !== "diverging") return null;
  const rate = commands.findLast(
    ({ changes, stage }) => "learning_rate" in changes && stage === "in force",
  )?.changes.learning_rate;
  const times =
    factor == null ? t("loss is not finite") : t("loss %1 times its lowest", power(factor));
  const text = rate === undefined ? times : t("%1, since learning rate %2", times, rate);
  const back = Number(rate) === run?.learning_rate ? (run.rate_before ?? null) : null;
  const brief = factor == null ? times : t("loss × %1", power(factor));
  return { kind, text, brief, back };
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** 12, 340, 3·10⁴. */
export function power(value: number): string {
  if (value < 1000) return String(Math.round(value));
  const [digits, exponent] = value.toExponential(0).split("e+");
  const raised = Array.from(exponent, (digit) => SUPERSCRIPTS[Number(digit)]);
  return `${digits}·10${raised.join("")}`;
}
