/** The nodes of a cluster: a row for each, and the last lines of its output. */

import type { ClusterNode, ClusterState } from "./cluster";
import { h, setAttribute, setText } from "./dom";
import { count, shortened } from "./format";
import { t } from "./text";
import { sign, word } from "./words";

/** Nodes up to which all output is in sight from the beginning. */
const OPEN = 4;
/** Characters of a host's name; its tooltip has all. */
const MOST = 32;

interface Column {
  name: () => string;
  words?: boolean;
  text: (node: ClusterNode, cluster: ClusterState) => string;
}

const COLUMNS: Column[] = [
  { name: () => t("State"), words: true, text: ({ state }) => `${sign(state)} ${word(state)}` },
  { name: () => t("Host"), words: true, text: ({ host }) => shortened(host, MOST) },
  {
    name: () => t("Rows"),
    text: ({ rows }, { feed }) => (feed === null && rows === 0 ? "" : count(rows)),
  },
  { name: () => t("GPU"), words: true, text: ({ gpus }) => gpus || t("none") },
];

class Row {
  private readonly head = h("th", { scope: "row" });
  private readonly cells = COLUMNS.map(({ words }) =>
    h("td", { class: words ? "tos-words" : undefined }),
  );
  private readonly title = h("summary");
  private readonly output = h("pre", { tabindex: 0, role: "log", "aria-live": "off" });
  readonly element = h("tr", {}, this.head, ...this.cells);
  readonly details = h("details", {}, this.title, this.output);

  draw(node: ClusterNode, cluster: ClusterState): void {
    setText(this.head, node.name);
    setAttribute(this.element, "data-state", node.state);
    COLUMNS.forEach(({ text }, i) => {
      setText(this.cells[i], text(node, cluster));
    });
    setAttribute(this.cells[1], "title", node.host);
    setText(this.title, t("Output of %1", node.name));
    setAttribute(this.output, "aria-label", t("Last lines of %1", node.name));
    const atEnd = this.output.scrollTop + this.output.clientHeight >= this.output.scrollHeight - 4;
    setText(this.output, node.lines.join("\n"));
    if (atEnd) this.output.scrollTop = this.output.scrollHeight;
    this.details.hidden = node.lines.length === 0;
  }
}

export class NodeTable {
  private readonly body = h("tbody");
  private readonly outputs = h("div", { "data-tos": "outputs" });
  private rows: Row[] = [];
  readonly element: HTMLElement;

  constructor() {
    const heads = COLUMNS.map(({ name, words }) =>
      h("th", { scope: "col", class: words ? "tos-words" : undefined }, name()),
    );
    const table = h(
      "table",
      {},
      h("caption", { class: "tos-hidden" }, t("Nodes of the cluster")),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("Node")), ...heads)),
      this.body,
    );
    const label = t("Table of nodes");
    const scroll = h(
      "div",
      { class: "tos-scroll", tabindex: 0, role: "group", "aria-label": label },
      table,
    );
    this.element = h(
      "div",
      { role: "group", class: "tos-panel", "data-tos": "nodes", "aria-label": t("Nodes") },
      ...[scroll, this.outputs],
    );
  }

  draw(cluster: ClusterState): void {
    cluster.nodes.forEach((node, i) => {
      this.rows[i] ??= this.add(cluster.nodes.length <= OPEN);
      this.rows[i].draw(node, cluster);
    });
  }

  private add(open: boolean): Row {
    const row = new Row();
    row.details.open = open;
    this.body.append(row.element);
    this.outputs.append(row.details);
    return row;
  }
}
