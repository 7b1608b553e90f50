/** A row per worker, and those that lag behind in words. */

import { h, setAttribute, setText } from "./dom";
import { bytes, count, decimal, duration, percent, short, shortened } from "./format";
import { hasStaleness, inLockstep } from "./lockstep";
import type { RunModel, Worker } from "./model";
import { t } from "./text";
import { word } from "./words";

interface Column {
  name: () => string;
  title?: () => string;
  words?: boolean;
  /** Shown only where all workers make each step together, or only where staleness is counted. */
  only?: "together" | "stale";
  text: (worker: Worker) => string;
}

/** Where there is little room, the last ones take scrolling. */
const COLUMNS: Column[] = [
  { name: () => t("Part."), title: () => t("Partition"), text: (w) => String(w.partition) },
  { name: () => t("State"), words: true, text: stateText },
  { name: () => t("Milestones"), text: (w) => count(w.milestones) },
  { name: () => t("Samples/s"), text: (w) => short(w.samples_per_second) },
  {
    name: () => t("Computes"),
    title: () => t("Share of its time in which it computes"),
    only: "together",
    text: (w) => percent(w.computing),
  },
  {
    name: () => t("Reduces"),
    title: () => t("Share of its time in which it exchanges with others"),
    only: "together",
    text: (w) => percent(w.exchanging),
  },
  {
    name: () => t("Waits"),
    title: () => t("Share of its time in which it waits, such as for others of a step"),
    only: "together",
    text: (w) => percent(w.waiting),
  },
  {
    name: () => t("Staleness"),
    only: "stale",
    title: () => t("Staleness: now / mean / highest"),
    text: (w) =>
      [count(w.staleness), decimal(w.staleness_mean), count(w.staleness_max)].join(" / "),
  },
  {
    name: () => t("Last sync"),
    title: () => t("Age of the last exchange"),
    text: (w) => duration(w.age),
  },
  { name: () => t("Epoch"), text: (w) => String(w.epoch) },
  {
    name: () => t("Sent"),
    title: () => t("Bytes that it has sent, to the driver or to other workers"),
    text: (w) => bytes(w.sent),
  },
  {
    name: () => t("Received"),
    title: () => t("Bytes that it has received, from the driver or from other workers"),
    text: (w) => bytes(w.received),
  },
  { name: () => t("Host"), words: true, text: (w) => w.host },
];

/** Characters of a name in the table and of the sentence above it. */
const MOST = 32;

const SIGNS = { training: "▶", waiting: "‖", lost: "✕", done: "✓" } as const;

function stateText(worker: Worker): string {
  let text = word(worker.state);
  if (worker.lost > 0) text = t("%1, lost %2×", text, worker.lost);
  if (worker.note) text = t("%1 (behind)", text);
  return `${SIGNS[worker.state]} ${text}`;
}

interface Row {
  element: HTMLTableRowElement;
  head: HTMLElement;
  cells: HTMLElement[];
}

export class WorkerTable {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly stragglers = h("p", { class: "tos-stragglers", hidden: true });
  private readonly heads = COLUMNS.map(({ name, title, words }) =>
    h("th", { scope: "col", title: title?.(), class: words ? "tos-words" : undefined }, name()),
  );
  private rows: Row[] = [];

  constructor() {
    this.element = h(
      "section",
      { class: "tos-panel", "data-tos": "workers", "aria-label": t("Workers") },
      this.stragglers,
      h(
        "div",
        { class: "tos-scroll", tabindex: 0, role: "region", "aria-label": t("Table of workers") },
        h(
          "table",
          {},
          h("caption", { class: "tos-hidden" }, t("Workers, by executor and partition")),
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("Executor")), ...this.heads)),
          this.body,
        ),
      ),
    );
  }

  draw(model: RunModel): void {
    const fit = { together: inLockstep(model.run), stale: hasStaleness(model.run) };
    const unfit = COLUMNS.map(({ only }) => only !== undefined && !fit[only]);
    this.heads.forEach((head, j) => (head.hidden = unfit[j]));
    while (this.rows.length > model.workers.length) this.rows.pop()?.element.remove();
    model.workers.forEach((worker, i) => {
      this.rows[i] ??= this.addRow();
      const { element, head, cells } = this.rows[i];
      setAttribute(element, "data-state", worker.state);
      setName(head, worker.executor);
      COLUMNS.forEach((column, j) => {
        cells[j].hidden = unfit[j];
        if (!unfit[j]) setName(cells[j], column.text(worker));
      });
    });
    const words = stragglerText(model.workers);
    this.stragglers.hidden = words === "";
    setText(this.stragglers, words);
  }

  private addRow(): Row {
    const head = h("th", { scope: "row" });
    const cells = COLUMNS.map(({ words }) => h("td", { class: words ? "tos-words" : undefined }));
    const element = h("tr", {}, head, ...cells);
    this.body.append(element);
    return { element, head, cells };
  }
}

/** A long name is cut, and the tooltip has all of it. */
function setName(cell: HTMLElement, name: string): void {
  const shown = shortened(name, MOST);
  setText(cell, shown);
  if (shown === name) cell.removeAttribute("title");
  else setAttribute(cell, "title", name);
}

/** Who lags behind, in one sentence; three are named. */
export function stragglerText(workers: readonly Worker[]): string {
  const slow = workers.filter(({ note }) => note !== "");
  if (slow.length === 0) return "";
  const named = slow
    .slice(0, 3)
    .map((w) =>
      t("executor %1, partition %2, is %3", shortened(w.executor, MOST), w.partition, w.note),
    )
    .join("; ");
  if (slow.length <= 3) return t("Stragglers: %1.", named);
  return t("Stragglers: %1; and %2 more.", named, slow.length - 3);
}
