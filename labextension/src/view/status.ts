/** The header at full pace, and the sentence that a screen reader speaks now and then. */

import { ChaosBadge } from "./chaos";
import { h, setAttribute, setText } from "./dom";
import { bytes, count, decimal, duration, number, short, shortened } from "./format";
import { hasStaleness } from "./lockstep";
import { hasEnded, type RunInfo, type RunModel, share, type Totals } from "./model";
import { notices } from "./notices";
import { t } from "./text";
import { sign, word } from "./words";

/** Characters of a metric's name; its chart has all of it. */
const MOST = 40;

/** Seconds between two sentences while nothing changes but numbers. */
export const SPEAK_EVERY = 15_000;

const SENTENCES: Partial<Record<string, (run: number, figures: string) => string>> = {
  starting: (...said) => t("Run %1 is starting: %2.", ...said),
  running: (...said) => t("Run %1 is training: %2.", ...said),
  paused: (...said) => t("Run %1 is paused: %2.", ...said),
  stopping: (...said) => t("Run %1 is stopping and keeps its weights: %2.", ...said),
  finished: (...said) => t("Run %1 has finished: %2.", ...said),
  stopped: (...said) => t("Run %1 was stopped and kept its weights: %2.", ...said),
  failed: (...said) => t("Run %1 has failed: %2.", ...said),
  lost: (...said) => t("Run %1 was lost with its kernel: %2.", ...said),
};

/** Bytes of a sample, and how many times fewer that is than if everything travelled as it is. */
function traffic(run: RunInfo, totals: Totals): string {
  const each = bytes(perSample(totals.bytes, totals.samples));
  const ratio = totals.bytes ? (2 * run.model_bytes * totals.milestones) / totals.bytes : 0;
  return ratio > 1.05 ? t("%1 (÷\u00a0%2)", each, decimal(ratio)) : each;
}

/** One sentence on where the run stands. */
function sentence({ run, totals }: RunModel): string {
  if (run === null || totals === null) return t("Waiting for the kernel.");
  const parts = [t("epoch %1 of %2", run.epoch, run.epochs)];
  for (const [name, value] of Object.entries(totals.validation ?? {})) {
    parts.push(t("validation %1 %2", name, number(value)));
  }
  if (totals.loss !== null) parts.push(t("loss %1", number(totals.loss)));
  if (run.chaos.length > 0 && !hasEnded(run.state)) parts.push(t("chaos is on"));
  parts.push(...notices(run).map(({ text }) => text));
  if (run.state === "running") {
    if (totals.samples_per_second) parts.push(t("%1 samples/s", short(totals.samples_per_second)));
    if (totals.eta !== null) parts.push(t("about %1 to go", duration(totals.eta)));
  } else if (hasEnded(run.state)) {
    if (run.reason) parts.push(run.reason);
    parts.push(t("%1 milestones in %2", count(totals.milestones), duration(run.elapsed)));
  }
  const figures = parts.join(", ");
  const said =
    SENTENCES[run.state]?.(run.number, figures) ??
    t("Run %1 %2: %3.", run.number, run.state, figures);
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

export class Header {
  private readonly title = h("strong", { class: "tos-title" }, t("Run"));
  private readonly state = h("span", { class: "tos-state" });
  private readonly about = h("span", { class: "tos-about" });
  private readonly progress = h("progress", {
    max: 1,
    value: 0,
    "aria-label": t("Samples trained"),
  });
  private readonly epoch = h("span", { class: "tos-epoch" });
  private readonly facts = new Map<string, HTMLElement>();
  /** What the model that the user gets is worth stands first. */
  private readonly results = h("div", { class: "tos-results" });
  private readonly list = h("div", { class: "tos-facts" }, this.results);
  private readonly chaos = new ChaosBadge();
  private readonly waits = h("p", { class: "tos-waits", "data-tos": "waits", hidden: true });
  readonly element = h(
    "header",
    { class: "tos-header" },
    h("div", { class: "tos-headline" }, this.title, this.state, this.about),
    this.chaos.element,
    this.waits,
    h("div", { class: "tos-progress" }, this.progress, this.epoch),
    this.list,
  );

  draw({ run, totals, workers }: RunModel): void {
    if (run === null || totals === null) return;
    setText(this.title, t("Run %1", run.number));
    this.chaos.draw(hasEnded(run.state) ? [] : run.chaos);
    const noted = notices(run);
    this.waits.hidden = noted.length === 0;
    setText(this.waits, noted.map(({ sign, text }) => `${sign} ${text}`).join("\n"));
    const why = run.reason ? `: ${run.reason}` : "";
    setText(this.state, `${sign(run.state)} ${word(run.state)}${why}`);
    setAttribute(this.state, "data-state", run.state);
    setText(this.about, about(run).filter(Boolean).join(" · "));
    this.progress.value = share({ ...run, ...totals });
    setText(this.epoch, place(run, totals.eta));
    const active = workers.filter((worker) => worker.state !== "done").length;
    for (const [name, value] of Object.entries(totals.validation ?? {})) {
      this.fact(t("validation %1", name), number(value), this.results);
    }
    this.fact(t("loss"), number(totals.loss));
    this.fact(t("milestones"), count(totals.milestones));
    this.fact(t("samples/s"), short(totals.samples_per_second));
    if (hasStaleness(run)) this.fact(t("mean staleness"), decimal(totals.staleness_mean));
    this.fact(t("bytes per sample"), traffic(run, totals));
    this.fact(t("elapsed"), duration(run.elapsed));
    if (!hasEnded(run.state)) this.fact(t("workers"), count(active));
    else this.facts.get(t("workers"))?.parentElement?.remove();
  }

  private fact(name: string, value: string, place: HTMLElement = this.list): void {
    let element = this.facts.get(name);
    if (!element) {
      // No dl: JupyterLab's own styles take such lists apart.
      element = h("span", { class: "tos-value" });
      this.facts.set(name, element);
      const shown = shortened(name, MOST);
      const title = shown === name ? undefined : name;
      place.append(h("div", {}, h("span", { title }, shown), " ", element));
    }
    setText(element, value);
  }
}

/** By what a run trains: the sync mode only where there are several. */
function about(run: RunInfo): (string | null | undefined)[] {
  const sync = hasStaleness(run) ? run.sync : null;
  return [run.program, run.strategy, run.combiner, sync, run.codec, run.master];
}

function place({ epoch, epochs, state }: RunInfo, eta: number | null): string {
  if (hasEnded(state) || eta === null) return t("epoch %1 of %2", epoch, epochs);
  return t("epoch %1 of %2, %3 to go", epoch, epochs, duration(eta));
}

function perSample(total: number | null, samples: number): number | null {
  return total === null || samples === 0 ? null : total / samples;
}
