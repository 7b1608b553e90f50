/** The sentence that a screen reader speaks now and then. */

import { h, setText } from "./dom";
import { count, duration, number, short } from "./format";
import { hasEnded, type RunModel } from "./model";
import { notices } from "./notices";
import { trouble } from "./results";
import { stragglerText } from "./stragglers";
import { t } from "./text";
import { nameOf } from "./words";

/** Milliseconds between two sentences while nothing changes but numbers. */
export const SPEAK_EVERY = 15_000;

const SENTENCES: Partial<Record<string, (run: string, figures: string) => string>> = {
  queued: (...said) => t("%1 waits for its turn: %2.", ...said),
  starting: (...said) => t("%1 is starting: %2.", ...said),
  running: (...said) => t("%1 is training: %2.", ...said),
  paused: (...said) => t("%1 is paused: %2.", ...said),
  stopping: (...said) => t("%1 is stopping and keeps its weights: %2.", ...said),
  finished: (...said) => t("%1 has finished: %2.", ...said),
  stopped: (...said) => t("%1 was stopped and kept its weights: %2.", ...said),
  failed: (...said) => t("%1 has failed: %2.", ...said),
  lost: (...said) => t("%1 was lost with its kernel: %2.", ...said),
};

/** One sentence on where the run stands. */
function sentence(model: RunModel): string {
  const { run, totals, workers } = model;
  if (run === null || totals === null) return t("Waiting for the kernel.");
  const parts = [t("epoch %1 of %2", run.epoch, run.epochs)];
  for (const [name, value] of Object.entries(totals.validation ?? {})) {
    parts.push(t("validation %1 %2", name, number(value)));
  }
  if (totals.loss !== null) parts.push(t("loss %1", number(totals.loss)));
  const wrong = trouble(model);
  if (wrong) parts.push(wrong.text);
  if (run.chaos.length > 0 && !hasEnded(run.state)) parts.push(t("chaos is on"));
  parts.push(...notices(run).map(({ text }) => text));
  if (run.state === "running") {
    if (totals.samples_per_second) parts.push(t("%1 samples/s", short(totals.samples_per_second)));
    if (totals.eta !== null) parts.push(t("about %1 left", duration(totals.eta)));
    const slow = stragglerText(workers);
    if (slow) parts.push(slow);
  } else if (hasEnded(run.state)) {
    if (run.reason) parts.push(run.reason);
    parts.push(t("%1 milestones in %2", count(totals.milestones), duration(run.elapsed)));
  }
  const figures = parts.join(", ").replace(/\.$/, "");
  const said =
    SENTENCES[run.state]?.(nameOf(run), figures) ??
    t("%1 %2: %3.", nameOf(run), run.state, figures);
  return run.error ? `${said} ${run.error.message}` : said;
}

/** Speaks at once when the state changes, else only every SPEAK_EVERY. */
export class Status {
  readonly element = h(
    "p",
    { role: "status", "aria-live": "polite", "data-tos": "status", class: "tos-hidden" },
    t("Waiting for the kernel."),
  );
  private spoken = -Infinity;
  private state = "";

  draw(model: RunModel, notice: string, now: number): void {
    const { run } = model;
    const rare =
      run === null ? [] : [run.state, ...run.chaos, ...notices(run).map(({ text }) => text)];
    const state = `${rare.join()} ${notice}`;
    if (state === this.state && now - this.spoken < SPEAK_EVERY) return;
    this.state = state;
    this.spoken = now;
    setText(this.element, notice || sentence(model));
  }
}
