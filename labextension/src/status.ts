/** The header at full pace, and the sentence that a screen reader speaks now and then. */

import { h, setAttribute, setText } from "./dom";
import { bytes, count, decimal, duration, number, short } from "./format";
import { hasEnded, type RunModel } from "./model";

/** Seconds between two sentences while nothing changes but numbers. */
export const SPEAK_EVERY = 15_000;

const SIGNS: Record<string, string> = {
  starting: "…",
  running: "▶",
  paused: "‖",
  stopping: "■",
  finished: "✓",
  stopped: "■",
  failed: "✕",
};

const VERBS: Record<string, string> = {
  starting: "is starting",
  running: "is training",
  paused: "is paused",
  stopping: "is stopping and keeps its weights",
  finished: "has finished",
  stopped: "was stopped and kept its weights",
  failed: "has failed",
};

/** One sentence on where the run stands. */
export function sentence({ run, totals }: RunModel): string {
  if (run === null || totals === null) return "Waiting for the kernel.";
  const parts = [`epoch ${run.epoch} of ${run.epochs}`];
  if (totals.loss !== null) parts.push(`loss ${number(totals.loss)}`);
  if (run.state === "running") {
    if (totals.samples_per_second) parts.push(`${short(totals.samples_per_second)} samples/s`);
    if (totals.eta !== null) parts.push(`about ${duration(totals.eta)} to go`);
  } else if (hasEnded(run.state)) {
    parts.push(`${count(totals.milestones)} milestones in ${duration(run.elapsed)}`);
  }
  const error = run.error ? ` ${run.error.message}` : "";
  return `Run ${run.number} ${VERBS[run.state] ?? run.state}: ${parts.join(", ")}.${error}`;
}

/** Speaks at once when the state changes, else only every SPEAK_EVERY. */
export class Status {
  readonly element = h(
    "p",
    { role: "status", "aria-live": "polite", "data-tos": "status", class: "tos-hidden" },
    "Waiting for the kernel.",
  );
  private spoken = -Infinity;
  private state = "";

  draw(model: RunModel, notice: string, now: number): void {
    const state = `${model.run?.state ?? ""} ${notice}`;
    if (state === this.state && now - this.spoken < SPEAK_EVERY) return;
    this.state = state;
    this.spoken = now;
    setText(this.element, notice || sentence(model));
  }
}

export class Header {
  private readonly title = h("strong", { class: "tos-title" }, "Run");
  private readonly state = h("span", { class: "tos-state" });
  private readonly about = h("span", { class: "tos-about" });
  private readonly progress = h("progress", { max: 1, value: 0, "aria-label": "Samples trained" });
  private readonly epoch = h("span", { class: "tos-epoch" });
  private readonly facts = new Map<string, HTMLElement>();
  private readonly list = h("div", { class: "tos-facts" });
  readonly element = h(
    "header",
    { class: "tos-header" },
    h("div", { class: "tos-headline" }, this.title, this.state, this.about),
    h("div", { class: "tos-progress" }, this.progress, this.epoch),
    this.list,
  );

  draw({ run, totals, workers }: RunModel): void {
    if (run === null || totals === null) return;
    setText(this.title, `Run ${run.number}`);
    setText(this.state, `${SIGNS[run.state] ?? ""} ${run.state}`);
    setAttribute(this.state, "data-state", run.state);
    setText(this.about, [run.program, run.combiner, run.master].filter(Boolean).join(" · "));
    const done = totals.samples_total ? totals.samples / totals.samples_total : 0;
    const share = run.state === "finished" ? 1 : Math.min(1, done || run.epoch / (run.epochs || 1));
    this.progress.value = share;
    const left =
      hasEnded(run.state) || totals.eta === null ? "" : `, ${duration(totals.eta)} to go`;
    setText(this.epoch, `epoch ${run.epoch} of ${run.epochs}${left}`);
    const active = workers.filter((worker) => worker.state !== "done").length;
    this.fact("loss", number(totals.loss));
    this.fact("milestones", count(totals.milestones));
    this.fact("samples/s", short(totals.samples_per_second));
    this.fact("mean staleness", decimal(totals.staleness_mean));
    this.fact("bytes per sample", bytes(perSample(totals.bytes, totals.samples)));
    this.fact("elapsed", duration(run.elapsed));
    if (!hasEnded(run.state)) this.fact("workers", count(active));
    else this.facts.get("workers")?.parentElement?.remove();
  }

  private fact(name: string, value: string): void {
    let element = this.facts.get(name);
    if (!element) {
      // No dl: JupyterLab's own styles take such lists apart.
      element = h("span", { class: "tos-value" });
      this.facts.set(name, element);
      this.list.append(h("div", {}, h("span", {}, name), " ", element));
    }
    setText(element, value);
  }
}

function perSample(total: number | null, samples: number): number | null {
  return total === null || samples === 0 ? null : total / samples;
}
