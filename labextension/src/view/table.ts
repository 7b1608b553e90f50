/** A row per worker, in the order that its reader chooses. */

import { h, setAttribute, setText } from "./dom";
import { bytes, count, decimal, duration, percent, short, shortened } from "./format";
import { absence } from "./lanes-layout";
import { hasStaleness, inLockstep } from "./lockstep";
import type { RunModel, Shard, Worker } from "./model";
import { t } from "./text";
import { sign, word } from "./words";

interface Column {
  name: () => string;
  /** What rows are sorted by. */
  order: (worker: Worker | Shard) => number | string | null | undefined;
  title?: () => string;
  words?: boolean;
  /** Shown only where all workers make each step together, or do not, or where staleness is counted. */
  only?: "together" | "apart" | "stale";
  text: (worker: Worker | Shard) => string;
}

/** Where there is little room, the last ones take scrolling. */
const COLUMNS: Column[] = [
  {
    name: () => t("Part."),
    title: () => t("Partition"),
    order: (w) => w.partition,
    text: (w) => count(w.partition),
  },
  { name: () => t("Host"), words: true, order: (w) => w.host, text: (w) => w.host },
  { name: () => t("State"), words: true, order: (w) => w.state, text: stateText },
  { name: () => t("Milestones"), order: (w) => w.milestones, text: (w) => count(w.milestones) },
  {
    name: () => t("Samples/s"),
    order: (w) => w.samples_per_second,
    text: (w) => short(w.samples_per_second),
  },
  {
    name: () => t("Computes"),
    title: () => t("Share of its time in which it computes"),
    only: "together",
    order: (w) => w.computing,
    text: (w) => percent(w.computing),
  },
  {
    name: () => t("Reduces"),
    title: () => t("Share of its time in which it exchanges with others"),
    only: "together",
    order: (w) => w.exchanging,
    text: (w) => percent(w.exchanging),
  },
  {
    name: () => t("Waits"),
    title: () => t("Share of its time in which it waits, such as for other workers"),
    only: "together",
    order: (w) => w.waiting,
    text: (w) => percent(w.waiting),
  },
  {
    name: () => t("Staleness"),
    only: "stale",
    title: () => t("Staleness: now / mean / highest"),
    order: (w) => w.staleness_mean,
    text: (w) =>
      [count(w.staleness), decimal(w.staleness_mean), count(w.staleness_max)].join(" / "),
  },
  {
    name: () => t("Last sync"),
    title: () => t("Age of the last exchange"),
    order: (w) => w.age,
    text: (w) => duration(w.age),
  },
  { name: () => t("Epoch"), only: "apart", order: (w) => w.epoch, text: (w) => count(w.epoch) },
  {
    name: () => t("CPU"),
    title: () => t("Share of one core that its process uses; more than 100 % with several threads"),
    order: (w) => w.cpu,
    text: (w) => percent(w.cpu),
  },
  {
    name: () => t("Memory"),
    title: () => t("Memory that its process takes, without the executor's Java process"),
    order: (w) => w.memory,
    text: (w) => bytes(w.memory),
  },
  {
    name: () => t("Sent"),
    title: () => t("Bytes that it has sent, to the driver or to other workers"),
    order: (w) => w.sent,
    text: (w) => bytes(w.sent),
  },
  {
    name: () => t("Received"),
    title: () => t("Bytes that it has received, from the driver or from other workers"),
    order: (w) => w.received,
    text: (w) => bytes(w.received),
  },
];

/** Characters of a name. */
const MOST = 32;

/** Of states that runs do not have, or have for another reason. */
const SIGNS: Partial<Record<string, string>> = { training: "▶", waiting: "‖", serving: "◆" };

function stateText(worker: Worker | Shard): string {
  let text = word(worker.state);
  if (worker.lost > 0) text = t("%1, lost %2×", text, worker.lost);
  if (worker.note) text = t("%1 (behind)", text);
  return `${SIGNS[worker.state] ?? sign(worker.state)} ${text}`;
}

/** From so many workers on the slowest ones stand first. */
const CROWD = 16;
/** Milliseconds for which rows stay where they are while their numbers change. */
const CALM = 5000;

interface Row {
  element: HTMLTableRowElement;
  head: HTMLElement;
  cells: HTMLElement[];
}

/** By which column rows are sorted; -1 is the executor's. */
interface Order {
  column: number;
  rising: boolean;
}

const EXECUTOR = -1;
const BY_PARTITION: Order = { column: 0, rising: true };
const SLOWEST: Order = {
  column: COLUMNS.findIndex(({ order }) => order({ samples_per_second: 1 } as Worker) === 1),
  rising: true,
};

export class WorkerTable {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly heads: HTMLTableCellElement[];
  private rows: Row[] = [];
  /** null until its reader chooses one. */
  private order: Order | null = null;
  /** Places of workers, in the order of rows, and when that was found. */
  private places: number[] = [];
  private found = -Infinity;
  private model: RunModel | null = null;

  constructor() {
    const executor = { name: () => t("Executor"), title: undefined, words: true };
    this.heads = [executor, ...COLUMNS].map(({ name, title, words }, i) => {
      const button = h("button", { class: "tos-sort", title: title?.() }, name());
      button.addEventListener("click", () => {
        this.sort(i - 1);
      });
      return h("th", { scope: "col", class: words ? "tos-words" : undefined }, button);
    });
    this.element = h(
      "div",
      { role: "group", "data-tos": "workers", "aria-label": t("Workers") },
      h(
        "div",
        { class: "tos-scroll", tabindex: 0, role: "group", "aria-label": t("Table of workers") },
        h(
          "table",
          {},
          h("caption", { class: "tos-hidden" }, t("Workers, by executor and partition; shards")),
          h("thead", {}, h("tr", {}, ...this.heads)),
          this.body,
        ),
      ),
    );
  }

  draw(model: RunModel): void {
    this.model = model;
    this.element.style.setProperty("--tos-workers", String(model.run?.partitions ?? 1));
    const together = inLockstep(model.run);
    const fit = { together, apart: !together, stale: hasStaleness(model.run) };
    const unfit = COLUMNS.map(({ only }) => only !== undefined && !fit[only]);
    this.heads.slice(1).forEach((head, j) => (head.hidden = unfit[j]));
    const shown = [...this.placed(model.workers), ...(model.run?.shards ?? [])];
    while (this.rows.length > shown.length) this.rows.pop()?.element.remove();
    shown.forEach((worker, i) => {
      this.rows[i] ??= this.addRow();
      const { element, head, cells } = this.rows[i];
      setAttribute(element, "data-state", worker.state);
      setAttribute(element, "data-behind", String(worker.note !== ""));
      setName(head, worker.executor);
      COLUMNS.forEach((column, j) => {
        cells[j].hidden = unfit[j];
        if (!unfit[j]) setName(cells[j], column.text(worker));
      });
      const why = worker.note || absence(worker, model.run?.state ?? "");
      if (why) setAttribute(element, "title", why);
      else element.removeAttribute("title");
    });
  }

  /** Sort by a column; once more for the other direction. */
  private sort(column: number): void {
    const again = this.order?.column === column;
    this.order = { column, rising: again ? !this.order?.rising : true };
    this.found = -Infinity;
    if (this.model) this.draw(this.model);
  }

  private sayOrder(order: Order): void {
    this.heads.forEach((head, i) => {
      if (i - 1 !== order.column) head.removeAttribute("aria-sort");
      else setAttribute(head, "aria-sort", order.rising ? "ascending" : "descending");
    });
  }

  /** The workers in the order of rows, which stays for a while, so that it can be read. */
  private placed(workers: readonly Worker[]): Worker[] {
    const order = this.order ?? (workers.length > CROWD ? SLOWEST : BY_PARTITION);
    this.sayOrder(order);
    const now = performance.now();
    if (now - this.found >= CALM || this.places.length !== workers.length) {
      this.found = now;
      const sign = order.rising ? 1 : -1;
      const value = (i: number): number | string => valueOf(workers[i], order.column);
      this.places = workers
        .map((_, i) => i)
        .sort((a, b) => sign * compare(value(a), value(b)) || a - b);
    }
    return this.places.map((i) => workers[i]);
  }

  private addRow(): Row {
    const head = h("th", { scope: "row" });
    const cells = COLUMNS.map(({ words }) => h("td", { class: words ? "tos-words" : undefined }));
    const element = h("tr", {}, head, ...cells);
    this.body.append(element);
    return { element, head, cells };
  }
}

function valueOf(worker: Worker, column: number): number | string {
  return (column === EXECUTOR ? worker.executor : COLUMNS[column].order(worker)) ?? -Infinity;
}

function compare(a: number | string, b: number | string): number {
  if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** A long name is cut, and the tooltip has all of it. */
function setName(cell: HTMLElement, name: string): void {
  const shown = shortened(name, MOST);
  setText(cell, shown);
  if (shown === name) cell.removeAttribute("title");
  else setAttribute(cell, "title", name);
}
