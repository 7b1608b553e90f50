/** One kernel in the panel: its cluster and its runs. */

import { h, setAttribute, setText, uniqueId } from "../view/dom";
import type { Kernel } from "./kernels";
import { arrange, type PanelContext } from "./panel-context";
import { ClusterItem } from "./panel-cluster";
import { Row } from "./panel-row";
import type { RunRow } from "./protocol";
import { SparkLink } from "./spark-ui";

export class Section {
  private readonly titleId = uniqueId("kernel");
  private readonly title = h("button", { id: this.titleId });
  private readonly notice = h("p", { class: "tos-lab-notice", role: "status" });
  private readonly facts = h("ul", { class: "tos-lab-facts" });
  private readonly texts = [h("li"), h("li"), h("li")];
  private readonly link: SparkLink;
  private readonly list: HTMLElement;
  private readonly rows = new Map<string, Row>();
  /** The runs that are to be compared. */
  private readonly chosen = new Set<string>();
  private readonly compare = h("button", { class: "tos-lab-compare" });
  private readonly clusters: HTMLElement;
  private readonly items = new Map<string, ClusterItem>();
  readonly element: HTMLElement;

  constructor(
    private readonly kernel: Kernel,
    private readonly context: PanelContext,
  ) {
    const { trans } = context;
    this.link = new SparkLink(trans.__("Spark UI"), context.sparkUi);
    this.facts.setAttribute("aria-label", trans.__("Cluster"));
    this.facts.append(...this.texts, h("li", {}, this.link.element));
    this.list = h("ul", { class: "tos-lab-runs", "aria-label": trans.__("Runs, newest first") });
    this.title.addEventListener("click", () => {
      context.openDocument(kernel);
    });
    this.clusters = h("ul", {
      class: "tos-lab-runs",
      "aria-label": trans.__("TensorFlow clusters, newest first"),
    });
    this.compare.addEventListener("click", () => {
      context.compare(kernel, this.compared());
    });
    const head = [h("h2", {}, this.title), this.notice, this.facts, this.compare];
    const parts = [...head, this.clusters, this.list];
    this.element = h("section", { "aria-labelledby": this.titleId }, ...parts);
  }

  draw(): void {
    const { kernel, context } = this;
    setText(this.title, kernel.name);
    setAttribute(this.title, "title", kernel.path);
    setAttribute(this.element, "data-state", kernel.state);
    const notice = this.say();
    setText(this.notice, notice);
    this.notice.toggleAttribute("hidden", notice === "");
    this.drawCluster();
    const shown = kernel.overview.runs.filter(({ hidden }) => !hidden);
    const newestFirst = shown.map(({ id }) => id).reverse();
    arrange(
      this.list,
      this.rows,
      newestFirst,
      (id) => new Row(kernel, id, context, this.choose(id)),
    );
    for (const row of this.rows.values()) row.draw();
    this.drawCompare();
    const clusters = kernel.overview.clusters.map(({ id }) => id).reverse();
    this.clusters.toggleAttribute("hidden", clusters.length === 0);
    arrange(this.clusters, this.items, clusters, (id) => new ClusterItem(kernel, id, context));
    for (const item of this.items.values()) item.draw();
  }

  private choose(id: string): (chosen: boolean) => void {
    return (chosen) => {
      if (chosen) this.chosen.add(id);
      else this.chosen.delete(id);
      this.drawCompare();
    };
  }

  private compared(): RunRow[] {
    return this.kernel.overview.runs.filter(({ id, hidden }) => this.chosen.has(id) && !hidden);
  }

  private drawCompare(): void {
    const { kernel } = this;
    const count = this.compared().length;
    const usable = kernel.state === "open" && kernel.context !== null && count > 1;
    setText(this.compare, this.context.trans.__("⇄ Compare %1 runs", count));
    this.compare.toggleAttribute("hidden", !usable);
  }

  private say(): string {
    const { trans } = this.context;
    const { state, overview } = this.kernel;
    if (state === "lost") return trans.__("The kernel was restarted; this is what it left.");
    if (this.kernel.context === null)
      return trans.__("Its document is closed; the kernel continues.");
    if (state === "opening") return trans.__("Connecting to the kernel …");
    if (overview.runs.length + overview.clusters.length > 0) return "";
    if (overview.cluster === null) {
      return trans.__("Not connected to Spark; %1 does that.", "%tos_connect");
    }
    return trans.__("No run yet; a cell that begins with %1 starts one.", "%%tos_train");
  }

  private drawCluster(): void {
    const { trans } = this.context;
    const { cluster } = this.kernel.overview;
    this.facts.toggleAttribute("hidden", cluster === null);
    if (cluster === null) return;
    const { master, executors, cores } = cluster;
    const facts = [
      master,
      trans._n("%1 executor", "%1 executors", executors),
      trans._n("%1 core", "%1 cores", cores),
    ];
    facts.forEach((fact, i) => {
      setText(this.texts[i], fact);
    });
    this.link.point(this.kernel.state === "open" ? cluster.ui : null);
  }
}
