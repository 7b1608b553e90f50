/** The view's line of numbers: what was learned first, then how fast and how far apart. */

import { h, setAttribute, setText, uniqueId } from "./dom";
import { count, decimal, duration, number, short, shortened } from "./format";
import { hasStaleness } from "./lockstep";
import { hasEnded, type RunModel, type Totals } from "./model";
import { type Result, results } from "./results";
import { t } from "./text";

/** Characters of a metric's name; its chart has all of it. */
const MOST = 40;
/** Metrics of validation that stand first; what else there is comes last. */
const FIRST = 2;
/** What has room for more than a number; how much time is left stands here where lines are short. */
type Kind = "learned" | "loss" | "rate" | "time" | "left" | "plain";
/** Rates that the small bars show, a second apart at least. */
const [BARS, APART] = [10, 1000];
const BLOCKS = "▁▂▃▄▅▆▇█";

interface Fact {
  element: HTMLElement;
  value: HTMLElement;
  extra: HTMLElement;
}

/** The last rates as small bars; empty before there are two. */
export class Bars {
  private readonly rates: number[] = [];
  private last = -Infinity;

  add(rate: number | null, now: number): string {
    if (rate !== null && now - this.last >= APART) {
      this.last = now;
      this.rates.push(rate);
      if (this.rates.length > BARS) this.rates.shift();
    }
    const most = Math.max(...this.rates);
    if (this.rates.length < 2 || !(most > 0)) return "";
    const top = BLOCKS.length - 1;
    return this.rates.map((one) => BLOCKS[Math.round((top * Math.max(0, one)) / most)]).join("");
  }
}

export class Facts {
  private readonly list = h("div", { class: "tos-facts", id: uniqueId("facts") });
  private readonly more = h(
    "button",
    {
      ...{ class: "tos-more", "data-tos": "more", "aria-expanded": "false" },
      ...{ "aria-label": t("More numbers"), "aria-controls": this.list.id },
    },
    "▸",
  );
  readonly element = h("div", { class: "tos-learned" }, this.list, this.more);
  private readonly facts = new Map<string, Fact>();
  private readonly bars = new Bars();
  private order = "";

  constructor() {
    this.more.addEventListener("click", () => {
      const open = this.list.toggleAttribute("data-open");
      setAttribute(this.more, "aria-expanded", String(open));
      setText(this.more, open ? "▾" : "▸");
    });
  }

  draw(model: RunModel, now: number): void {
    const { run, totals, workers } = model;
    if (run === null || totals === null) return;
    const names: string[] = [];
    const fact = (kind: Kind, name: string, value: string, extra = ""): void => {
      names.push(name);
      this.show(kind, name, value, extra);
    };
    const learned = results(model);
    const validated = (one: Result): void => {
      fact("learned", t("val %1", one.name), number(one.latest), extra(one));
    };
    // The place of what is evaluated later: nothing moves when it comes.
    const awaited = run.validates && learned.length === 0 ? [...measured(totals), "loss"] : [];
    for (const name of awaited.slice(0, FIRST)) fact("learned", t("val %1", name), number(null));
    learned.slice(0, FIRST).forEach(validated);
    fact("loss", t("loss"), number(totals.loss));
    const rate = totals.samples_per_second;
    const ended = hasEnded(run.state);
    if (!ended && totals.eta !== null) fact("left", t("left"), duration(totals.eta));
    fact("rate", t("samples/s"), short(rate), ended ? "" : this.bars.add(rate, now));
    fact("time", t("elapsed"), duration(run.elapsed));
    const training = workers.filter(({ state }) => state !== "done" && state !== "lost").length;
    if (!ended) {
      fact("plain", t("workers"), t("%1 of %2", count(training), count(run.partitions)));
    }
    if (hasStaleness(run)) fact("plain", t("staleness"), decimal(totals.staleness_mean));
    learned.slice(FIRST).forEach(validated);
    this.arrange(names);
  }

  private show(kind: Kind, name: string, value: string, extra: string): void {
    let fact = this.facts.get(name);
    if (!fact) {
      const parts = { value: h("span", { class: "tos-value" }), extra: h("span") };
      parts.extra.className = "tos-extra";
      const shown = shortened(name, MOST);
      // No dl: JupyterLab's own styles take such lists apart.
      const element = h(
        "div",
        { class: "tos-fact", "data-kind": kind },
        h("span", { class: "tos-fact-name", title: name }, shown),
        ...[" ", parts.value, " ", parts.extra],
      );
      fact = { element, ...parts };
      this.facts.set(name, fact);
    }
    setText(fact.value, value);
    setText(fact.extra, extra);
  }

  /** Show these, in this order. */
  private arrange(names: readonly string[]): void {
    if (names.join("\n") === this.order) return;
    this.order = names.join("\n");
    const shown = names.flatMap((name) => this.facts.get(name)?.element ?? []);
    this.list.replaceChildren(...shown);
  }
}

function measured({ metrics }: Totals): string[] {
  return Object.keys(metrics ?? {});
}

function extra({ best, epoch, latest }: Result): string {
  if (best === null || best === latest) return "";
  return t("best %1, epoch %2", number(best), epoch ?? "–");
}
