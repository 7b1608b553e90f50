/** What theory predicts of so many workers, beside what was measured. */

import { h, setAttribute, setText } from "./dom";
import { decimal, MISSING, number, percent } from "./format";
import { hasStaleness } from "./lockstep";
import type { RunModel, Totals } from "./model";
import { t } from "./text";

type Maybe = number | null;

export interface Reading {
  measured: Maybe;
  predicted: Maybe;
  /** Where the scale ends. */
  most: number;
}

/** As `tos_notebook.theory` has them: each a function of the staleness, with n - 1 predicted. */
const FORMULAS: ((staleness: number) => number)[] = [
  (staleness) => staleness,
  (staleness) => 1 - 1 / (1 + staleness),
  (staleness) => Math.sin(Math.PI / (2 * (2 * staleness + 1))),
];

/** Mean staleness, implicit momentum, and the share of one worker's largest stable rate. */
export function readings(totals: Totals | null): Reading[] {
  const workers = totals?.recent_workers ?? null;
  const measured = totals?.recent_staleness ?? null;
  const predicted = workers === null ? null : workers - 1;
  const apply = (formula: (staleness: number) => number, staleness: Maybe): Maybe =>
    staleness === null ? null : formula(staleness);
  return FORMULAS.map((formula, i) => ({
    measured: apply(formula, measured),
    predicted: apply(formula, predicted),
    most: i === 0 ? 2 * Math.max(1, predicted ?? 1) : 1,
  }));
}

interface Kind {
  name: () => string;
  meaning: () => string;
  text: (value: Maybe) => string;
}

const hundredths = (value: Maybe): string => (value === null ? MISSING : value.toFixed(2));

/** In the order of the formulas. */
const KINDS: Kind[] = [
  {
    name: () => t("Mean staleness"),
    meaning: () =>
      t("While a worker computes, each of the other n − 1 pushes one version on average."),
    text: decimal,
  },
  {
    name: () => t("Implicit momentum"),
    meaning: () =>
      t("Steps from old parameters act like momentum of 1 − 1/n, which you did not set."),
    text: hundredths,
  },
  {
    name: () => t("Stable learning rate"),
    meaning: () =>
      t("The staler the steps, the smaller they must be: share of what one worker alone can take."),
    text: percent,
  },
];

interface Row {
  measured: HTMLElement;
  predicted: HTMLElement;
  meter: HTMLElement;
}

export class Theory {
  readonly element: HTMLElement;
  private readonly assumed = h("p", { class: "tos-caption" });
  private readonly rows: Row[] = KINDS.map(({ name }) => ({
    measured: h("td"),
    predicted: h("td"),
    meter: h("div", {
      ...{ class: "tos-gauge", role: "meter", "aria-label": name(), "aria-valuemin": 0 },
    }),
  }));

  constructor() {
    const heads = [t("Measured"), t("Predicted"), t("▬ measured, │ predicted")];
    const head = (text: string, words = false): HTMLElement =>
      h("th", { scope: "col", class: words ? "tos-words" : undefined }, text);
    const lines = this.rows.map(({ measured, predicted, meter }, i) => {
      const { name, meaning } = KINDS[i];
      const words = h("td", { class: "tos-words tos-meaning" }, meaning());
      return h(
        "tr",
        {},
        ...[h("th", { scope: "row" }, name()), measured, predicted, h("td", {}, meter), words],
      );
    });
    const titles = h("tr", {}, head(t("Gauge")), ...heads.map((text) => head(text)));
    titles.append(head(t("Why"), true));
    this.element = h(
      "div",
      { role: "group", "data-tos": "theory", "aria-label": t("Theory and measurement") },
      h(
        "div",
        { class: "tos-scroll", tabindex: 0, role: "group", "aria-label": t("Gauges of theory") },
        h("table", {}, h("thead", {}, titles), h("tbody", {}, ...lines)),
        this.assumed,
      ),
    );
  }

  draw({ run, totals }: RunModel): void {
    // It is about workers that push one by one.
    this.element.hidden = !hasStaleness(run);
    if (this.element.hidden) return;
    readings(totals).forEach((reading, i) => {
      show(this.rows[i], reading, KINDS[i].text);
    });
    setText(this.assumed, assumption(totals?.recent_workers ?? null));
  }
}

function assumption(workers: Maybe): string {
  if (workers === null) return t("Nothing is measured before the first milestone.");
  return t(
    "Recent milestones, for n = %1 workers and one plain gradient step each. Only staleness is measured. The rest is derived from it.",
    number(workers),
  );
}

function show(row: Row, { measured, predicted, most }: Reading, text: Kind["text"]): void {
  setText(row.measured, text(measured));
  setText(row.predicted, text(predicted));
  const said = t("%1 measured, %2 predicted", text(measured), text(predicted));
  setAttribute(row.meter, "aria-valuemax", String(most));
  setAttribute(row.meter, "aria-valuenow", String(Math.min(most, measured ?? 0)));
  setAttribute(row.meter, "aria-valuetext", said);
  place(row.meter, "--tos-measured", measured, most);
  place(row.meter, "--tos-predicted", predicted, most);
}

/** Through the object model, which a policy against inline styles allows. */
function place({ style }: HTMLElement, name: string, value: Maybe, most: number): void {
  const percent = `${Math.min(100, Math.round((100 * (value ?? 0)) / most))}%`;
  if (style.getPropertyValue(name) !== percent) style.setProperty(name, percent);
}
