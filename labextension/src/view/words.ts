/** The kernel's own words, as people read them. */

import type { RunInfo } from "./model";
import { t } from "./text";

const WORDS: Partial<Record<string, () => string>> = {
  // States of a run
  starting: () => t("starting"),
  queued: () => t("queued"),
  running: () => t("running"),
  paused: () => t("paused"),
  stopping: () => t("stopping"),
  finished: () => t("finished"),
  stopped: () => t("stopped"),
  failed: () => t("failed"),
  // States of a worker
  training: () => t("training"),
  waiting: () => t("waiting"),
  lost: () => t("lost"),
  done: () => t("done"),
  serving: () => t("serving"),
  ready: () => t("ready"),
  // Levels of the log
  info: () => t("info"),
  warning: () => t("warning"),
  error: () => t("error"),
  command: () => t("command"),
  // Stages of a command
  asked: () => t("asked"),
  "in force": () => t("in force"),
  refused: () => t("refused"),
  // Commands
  pause: () => t("pause"),
  unpause: () => t("unpause"),
  // Their buttons and fields
  Repartition: () => t("Repartition"),
  Swap: () => t("Swap"),
  Set: () => t("Set"),
  Partitions: () => t("Partitions"),
  Combiner: () => t("Combiner"),
  Strategy: () => t("Strategy"),
  "Sync mode": () => t("Sync mode"),
  "Exchange every (batches)": () => t("Exchange every (batches)"),
  Codec: () => t("Codec"),
  "Learning rate": () => t("Learning rate"),
  // Groups of combiners
  Asynchronous: () => t("Asynchronous"),
  "By rounds": () => t("By rounds"),
  Buffered: () => t("Buffered"),
  Robust: () => t("Robust"),
  // Curves and what they are drawn over
  validation: () => t("validation"),
  time: () => t("time"),
  samples: () => t("samples"),
  epoch: () => t("epoch"),
};

const SIGNS: Partial<Record<string, string>> = {
  starting: "…",
  queued: "◔",
  ready: "…",
  waiting: "◔",
  running: "▶",
  paused: "‖",
  stopping: "■",
  finished: "✓",
  done: "✓",
  stopped: "■",
  failed: "✕",
  lost: "✕",
};

/** What stands before a run's state, so that it is not told by its colour alone. */
export function sign(state: string): string {
  return SIGNS[state] ?? "";
}

/** What has no translation is shown as it came. */
export function word(name: string): string {
  return WORDS[name]?.() ?? name;
}

/** A rule with its parameters as people say it: EASGD(alpha=0.9, tau=None) is EASGD, alpha 0.9. */
export function inPlain(value: string): string {
  return value.replaceAll(/\b([A-Za-z_]\w*)\(([^()]*)\)/g, (_, name: string, given: string) => {
    const set = given.split(", ").filter((one) => one !== "" && !one.endsWith("=None"));
    return [name, ...set.map((one) => one.replace("=", " ").replaceAll(/^'|'$/g, ""))].join(", ");
  });
}

/** What a run is called. */
export function nameOf({ name, number }: Pick<RunInfo, "name" | "number">): string {
  return name ?? t("Run %1", number);
}
