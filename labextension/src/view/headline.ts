/** The view's first line: which run, in what state, how far it is, and what goes wrong. */

import { h, setAttribute, setText } from "./dom";
import { count, duration, number, roughly, shortened } from "./format";
import { hasEnded, type RunInfo, type RunModel, share, type Totals } from "./model";
import { isQueued } from "./notices";
import { trouble } from "./results";
import { t, tn } from "./text";
import { nameOf, sign, word } from "./words";

/** Characters of a run's name. */
const MOST = 24;
/** Pixels: lower begins what did not fit in the line. */
const LINE = 30;

export class Headline {
  private readonly title = h("strong", { class: "tos-title" }, t("Run"));
  private readonly state = h("span", { class: "tos-state" });
  private readonly at = h("span", { class: "tos-at" });
  /** What is left out where there is no room. */
  private readonly rest = h("span", { class: "tos-rest" });
  private readonly place = h("span", { class: "tos-epoch" }, this.at, this.rest);
  private readonly trouble = h("span", {
    class: "tos-trouble",
    "data-tos": "trouble",
    hidden: true,
  });
  private readonly back = h("button", {
    ...{ class: "tos-back", "data-tos": "rate-back", hidden: true },
  });
  private readonly chaos = h("span", { class: "tos-chaos-badge", "data-tos": "chaos-badge" });
  readonly progress = h("progress", {
    ...{ class: "tos-thin", max: 1, value: 0, "aria-label": t("Samples trained") },
  });
  readonly element = h(
    "div",
    { class: "tos-headline" },
    ...[this.title, this.state, this.trouble, this.back, this.chaos, this.place],
  );

  /** `setRate` is called when a person wants the learning rate of before. */
  constructor(setRate: (rate: number) => void) {
    this.chaos.hidden = true;
    this.back.addEventListener("click", () => {
      setRate(Number(this.back.value));
    });
  }

  draw(model: RunModel): void {
    const { run, totals } = model;
    if (run === null || totals === null) return;
    const name = nameOf(run);
    setText(this.title, shortened(name, MOST));
    setAttribute(this.title, "title", name);
    const state = stateOf(run);
    setText(this.state, `${sign(state)} ${word(state)}`);
    setAttribute(this.state, "data-state", state);
    const { state: now } = run;
    this.at.classList.toggle("tos-sentence", now === "queued" || now === "starting");
    this.rest.classList.toggle("tos-sentence", hasEnded(now) && Boolean(run.reason));
    this.progress.value = share({ ...run, ...totals });
    const done = tn("%1 milestone", "%1 milestones", totals.milestones);
    setAttribute(this.progress, "title", done);
    this.drawTrouble(model);
    this.chaos.hidden = hasEnded(run.state) || run.chaos.length === 0;
    setAttribute(this.chaos, "title", run.chaos.join("; "));
    // The last, because all else in the line takes room.
    this.fit(forms(model, run, totals));
  }

  /** Show the first form that fits in the line, or the last one. */
  private fit(all: readonly Form[]): void {
    for (const part of [this.at, this.rest]) setAttribute(part, "title", all[0].join(""));
    for (const [at, rest, chaos = t("⚠ chaos")] of all) {
      setText(this.at, at);
      setText(this.rest, rest);
      setText(this.chaos, chaos);
      if ((rest ? this.rest : this.at).offsetTop < LINE) return;
    }
  }

  private drawTrouble(model: RunModel): void {
    const found = trouble(model);
    const back = hasEnded(model.run?.state ?? "") ? null : (found?.back ?? null);
    this.back.hidden = back === null;
    if (back !== null) {
      if (this.back.value !== String(back)) this.back.replaceChildren(...backTo(back));
      setAttribute(this.back, "value", String(back));
      setAttribute(this.back, "title", t("Set the learning rate back to %1", number(back)));
    }
    this.trouble.hidden = found === null;
    if (found === null) return;
    setText(this.trouble, `⚠ ${found.brief}`);
    setAttribute(this.trouble, "title", `⚠ ${found.text}`);
    setAttribute(this.trouble, "data-kind", found.kind);
  }
}

/** The setting that the button restores: in words, or as a sign where words do not fit. */
function backTo(rate: number): HTMLElement[] {
  const words = h("span", { class: "tos-word" }, t("Set back to %1", number(rate)));
  return [words, h("span", { class: "tos-short", "aria-hidden": "true" }, `↶ ${number(rate)}`)];
}

function stateOf(run: RunInfo): string {
  return isQueued(run) ? "queued" : run.state;
}

/** How far the run is, and how long it takes from here; what it does before it trains. */
function placed(model: Pick<RunModel, "workers">, run: RunInfo, totals: Totals): string[] {
  const { state, epoch, epochs, elapsed } = run;
  const at = t("epoch %1 of %2", epoch, epochs);
  const parts = [at];
  if (stateOf(run) === "queued") return [run.waits?.[0] ?? t("waits for free slots")];
  if (state === "starting" && totals.milestones === 0) return [steps(model, run)];
  if (state === "finished") {
    parts[0] = tn("%1 epoch in %2", "%1 epochs in %2", epochs, duration(elapsed));
  } else if (hasEnded(state)) {
    parts.push(duration(elapsed));
    if (run.reason) parts.push(run.reason);
  } else if (totals.eta !== null) {
    const left = duration(totals.eta);
    parts.push(
      state === "paused" ? t("about %1 left when unpaused", left) : t("about %1 left", left),
    );
  }
  return parts;
}

/** How far the run is, what is left out where there is no room, and another badge of chaos. */
type Form = readonly [at: string, rest: string, chaos?: string];

/** What the line says, the longest first. Sentences are clamped instead. */
function forms(model: Pick<RunModel, "workers">, run: RunInfo, totals: Totals): Form[] {
  const [at, ...rest] = placed(model, run, totals);
  const after = (...parts: string[]): string => parts.map((part) => ` · ${part}`).join("");
  const { state, epoch, epochs } = run;
  const { eta, milestones } = totals;
  const all: Form[] = [[at, after(...rest)]];
  if (hasEnded(state) || milestones === 0 || isQueued(run)) return all;
  const left = eta === null ? [] : [roughly(eta)];
  all.push([at, after(...left.map((time) => t("%1 left", time)))], [at, after(...left)]);
  return [...all, [`${epoch}/${epochs}`, after(...left), "⚠"]];
}

/** What comes before the first milestone: done, on its way, to come. */
function steps({ workers }: Pick<RunModel, "workers">, { partitions }: RunInfo): string {
  const joined = workers.length;
  const ready = joined >= partitions;
  const start = t("workers %1 of %2", count(joined), count(partitions));
  const all = [
    t("✓ captured"),
    `${ready ? "✓" : "◔"} ${start}`,
    `${ready ? "◔" : "·"} ${t("first milestone")}`,
  ];
  // No line ends within a step.
  return all.map((step) => step.replaceAll(" ", "\u00a0")).join("   ");
}
