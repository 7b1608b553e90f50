/** One TensorFlow cluster in the panel. */

import { Notification } from "@jupyterlab/apputils";

import { Question } from "../view/buttons";
import { h, setAttribute, setText } from "../view/dom";
import { sign, word } from "../view/words";
import type { Kernel } from "./kernels";
import type { PanelContext } from "./panel-context";
import type { ClusterRow } from "./protocol";
import { clusterState, nodesText } from "./status-item";

/** Its first button covers the row. */
export class ClusterItem {
  private readonly open = h("button", { class: "tos-lab-open" });
  private readonly state = h("span", { class: "tos-lab-state" });
  private readonly nodes = h("span");
  private readonly error = h("span", { class: "tos-lab-error", "data-kind": "error" });
  private readonly asks = h("span", { class: "tos-lab-asks", role: "status" });
  private readonly stop = h("button", { "data-tos": "stop" });
  private readonly actions = h("span", { class: "tos-lab-actions" }, this.stop);
  private readonly question: Question;
  private asked = false;
  readonly element: HTMLElement;

  constructor(
    private readonly kernel: Kernel,
    private readonly id: string,
    private readonly context: PanelContext,
  ) {
    const numbers = h("span", { class: "tos-lab-numbers" }, this.nodes);
    const parts = [this.open, this.state, this.actions, this.asks, numbers, this.error];
    this.element = h("li", {}, ...parts);
    this.open.addEventListener("click", () => {
      const { row } = this;
      if (row) context.openCluster(kernel, row);
    });
    this.question = new Question(this.stop, () => void this.end(), this.drawStop);
  }

  private get row(): ClusterRow | null {
    return this.kernel.overview.clusters.find(({ id }) => id === this.id) ?? null;
  }

  draw(): void {
    const { row, kernel } = this;
    if (row === null) return;
    const { trans } = this.context;
    const state = clusterState(kernel, row);
    setText(this.open, trans.__("Cluster %1", row.number));
    setAttribute(this.open, "aria-label", trans.__("Go to the cell of cluster %1", row.number));
    setText(this.state, `${sign(state)} ${word(state)}`);
    setAttribute(this.element, "data-state", state);
    setText(this.nodes, nodesText(row, trans));
    setText(this.error, row.error ?? "");
    const usable = kernel.state === "open" && /^(starting|running)$/.test(row.state);
    if (!usable && this.actions.contains(document.activeElement)) this.open.focus();
    this.actions.toggleAttribute("hidden", !usable);
    if (!usable) this.question.withdraw();
    this.drawStop("armed" in this.stop.dataset);
  }

  private readonly drawStop = (asking: boolean): void => {
    const number = this.row?.number ?? "";
    const { trans } = this.context;
    const text = asking
      ? trans.__("Click again to stop cluster %1", number)
      : trans.__("Stop cluster %1", number);
    setText(this.stop, asking ? "■?" : "■");
    setAttribute(this.stop, "aria-label", text);
    setAttribute(this.stop, "title", text);
    setText(this.asks, asking ? `${text}.` : "");
  };

  private async end(): Promise<void> {
    if (this.asked) return;
    this.asked = true;
    await stopCluster(this.kernel, this.id);
    this.asked = false;
  }
}

/** What comes of it is to be seen in the cluster's state; a refusal would not be. */
export async function stopCluster(kernel: Kernel, id: string): Promise<void> {
  const { ok, text } = await kernel
    .stopCluster(id)
    .catch((reason: unknown) => ({ ok: false, text: String(reason) }));
  if (!ok) Notification.error(text);
}
