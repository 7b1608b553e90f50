/** How many bytes a second each link carries: a matrix of few workers, else a list of the busiest. */

import { h, setText } from "./dom";
import { bytes } from "./format";
import { inLockstep } from "./lockstep";
import type { RunModel } from "./model";
import { t, tn } from "./text";
import type { LinkRate, Links } from "./workers";

/** Ends of links that a matrix has at most, the driver among them. */
export const MOST_ENDS = 9;
/** Links that a list has at most. */
export const MOST_LISTED = 20;

const DRIVER = -1;

export function endOfLink(partition: number): string {
  return partition === DRIVER ? t("driver") : String(partition);
}

/** The busiest link in words; empty if none is known. */
export function busiestLink(links: Links | null | undefined): string {
  if (!links?.rates.length) return "";
  const [source, target, rate] = links.rates[0];
  return t("%1 → %2, %3/s", endOfLink(source), endOfLink(target), bytes(rate));
}

interface Cell {
  text: string;
  /** Of the busiest link's rate, 0 to 1. */
  share: number;
}

interface Content {
  heads: string[];
  rows: { head: string; cells: Cell[] }[];
  caption: string;
}

/** In an order that stays as it is while rates change; the driver is the last one. */
function byEnds([a, b]: LinkRate, [c, d]: LinkRate): number {
  const place = (end: number): number => (end === DRIVER ? Infinity : end);
  return a === c ? compare(place(b), place(d)) : compare(place(a), place(c));
}

function compare(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

export function contentOf({ rates, more }: Links): Content {
  const most = rates[0]?.[2] ?? 0;
  const cell = (rate: number | null): Cell => ({
    text: t("%1/s", bytes(rate)),
    share: most > 0 ? (rate ?? 0) / most : 0,
  });
  const ends = [...new Set(rates.flatMap(([source, target]) => [source, target]))];
  if (ends.length > MOST_ENDS || more > 0) return list(rates, more, cell);
  ends.sort((a, b) => byEnds([a, 0, 0], [b, 0, 0]));
  const senders = new Set(rates.map(([source]) => source));
  const found = new Map(rates.map(([source, target, rate]) => [`${source} ${target}`, rate]));
  return {
    heads: [t("From \\ to"), ...ends.map(endOfLink)],
    rows: ends
      .filter((end) => senders.has(end))
      .map((source) => ({
        head: endOfLink(source),
        cells: ends.map((target) => {
          const rate = found.get(`${source} ${target}`);
          return rate === undefined ? { text: "", share: 0 } : cell(rate);
        }),
      })),
    caption: t("Recent rates, from a row's worker to a column's, by partition."),
  };
}

function list(
  rates: readonly LinkRate[],
  more: number,
  cell: (rate: number | null) => Cell,
): Content {
  const shown = rates.slice(0, MOST_LISTED).sort(byEnds);
  const rest = more + rates.length - shown.length;
  const busiest = t("The busiest links between workers now, by partition.");
  return {
    heads: [t("Link"), t("Bytes per second")],
    rows: shown.map(([source, target, rate]) => ({
      head: t("%1 → %2", endOfLink(source), endOfLink(target)),
      cells: [cell(rate)],
    })),
    caption:
      rest === 0
        ? busiest
        : `${busiest} ${tn("%1 more link carries less.", "%1 more links carry less.", rest)}`,
  };
}

export class LinkTable {
  readonly element: HTMLElement;
  private readonly busiest = h("p", { class: "tos-busiest" });
  private readonly head = h("thead");
  private readonly body = h("tbody");
  private readonly caption = h("p", { class: "tos-caption" });
  private cells: HTMLElement[] = [];
  private shape = "";

  constructor() {
    this.element = h(
      "div",
      {
        role: "group",
        class: "tos-panel",
        "data-tos": "links",
        "aria-label": t("Bytes per link"),
        hidden: true,
      },
      this.busiest,
      h(
        "div",
        { class: "tos-scroll", tabindex: 0, role: "group", "aria-label": t("Table of links") },
        h("table", { class: "tos-links" }, this.head, this.body),
      ),
      this.caption,
    );
  }

  draw({ run, totals }: RunModel): void {
    const links = totals?.links;
    this.element.hidden = !inLockstep(run) || !links?.rates.length;
    if (this.element.hidden || !links) return;
    const content = contentOf(links);
    setText(this.busiest, t("Busiest link: %1.", busiestLink(links)));
    setText(this.caption, content.caption);
    const shape = JSON.stringify([content.heads, content.rows.map(({ head }) => head)]);
    if (shape !== this.shape) this.build(content);
    this.shape = shape;
    content.rows
      .flatMap(({ cells }) => cells)
      .forEach(({ text, share }, i) => {
        setText(this.cells[i], text);
        const percent = `${Math.round(100 * share)}%`;
        const { style } = this.cells[i];
        // Through the object model, which a policy against inline styles allows.
        if (style.getPropertyValue("--tos-share") !== percent)
          style.setProperty("--tos-share", percent);
      });
  }

  private build({ heads, rows }: Content): void {
    const titles = heads.map((text) => h("th", { scope: "col" }, text));
    this.head.replaceChildren(h("tr", {}, ...titles));
    const lines = rows.map(({ head, cells }) =>
      h("tr", {}, h("th", { scope: "row" }, head), ...cells.map(() => h("td"))),
    );
    this.body.replaceChildren(...lines);
    this.cells = [...this.body.querySelectorAll("td")];
  }
}
