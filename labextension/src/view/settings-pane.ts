/** How the run trains: what a person looks up, and does not watch. */

import { h, setText } from "./dom";
import { bytes, count, decimal, number } from "./format";
import { hasStaleness } from "./lockstep";
import type { RunInfo, RunModel, Totals } from "./model";
import { t } from "./text";

type Row = [name: string, value: string];

/** Bytes of a sample, and how many times fewer that is than if everything travelled as it is. */
function traffic(run: RunInfo, totals: Totals): string {
  const { bytes: total, samples, milestones } = totals;
  const each = bytes(total === null || samples === 0 ? null : total / samples);
  const ratio = total ? (2 * run.model_bytes * milestones) / total : 0;
  return ratio > 1.05 ? t("%1 (÷\u00a0%2)", each, decimal(ratio)) : each;
}

/** By what the run trains: the sync mode only where there are several. */
function rows(run: RunInfo, totals: Totals): Row[] {
  const maybe = (name: string, value: string | null | undefined): Row[] =>
    value == null || value === "" ? [] : [[name, value]];
  const whole = (value: number | null): string | null => (value === null ? null : count(value));
  const own =
    run.own_rate == null
      ? t("the program's own")
      : t("%1, the program's own", number(run.own_rate));
  const rate = run.learning_rate === null ? own : number(run.learning_rate);
  return [
    [t("Program"), run.program],
    ...maybe(t("Strategy"), run.strategy),
    ...maybe(t("Combiner"), run.combiner),
    ...maybe(t("Sync mode"), hasStaleness(run) ? run.sync : null),
    ...maybe(
      t("Exchange every (batches)"),
      (run.sync_interval ?? 0) < 1e6 ? whole(run.sync_interval) : t("whole epoch"),
    ),
    [t("Codec"), run.codec],
    [t("Learning rate"), rate],
    ...maybe(t("Batch size"), whole(run.batch_size)),
    [t("Partitions"), count(run.partitions)],
    [t("Master"), run.master],
    [t("Milestones"), count(totals.milestones)],
    [t("Bytes per sample"), traffic(run, totals)],
    [t("Parameters"), run.model_bytes > 0 ? bytes(run.model_bytes) : "–"],
  ];
}

export class SettingsPane {
  private readonly body = h("tbody");
  private shown = "";
  readonly element = h(
    "div",
    {
      role: "group",
      ...{ class: "tos-scroll tos-settings", "data-tos": "settings", tabindex: 0 },
      "aria-label": t("Settings"),
    },
    h("table", {}, this.body),
  );

  draw({ run, totals }: RunModel): void {
    if (run === null || totals === null) return;
    const all = rows(run, totals);
    const names = all.map(([name]) => name).join();
    if (names !== this.shown) {
      this.shown = names;
      const lines = all.map(([name]) =>
        h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "tos-words" })),
      );
      this.body.replaceChildren(...lines);
    }
    all.forEach(([, value], i) => {
      setText(this.body.rows[i].cells[1], value);
    });
  }
}
