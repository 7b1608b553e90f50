/** What ended the run: the message, the user's own lines, then the rest in a fold. */

import { h } from "./dom";
import type { RunModel, WorkerError } from "./model";
import { t } from "./text";

export class ErrorPane {
  readonly element = h("section", {
    class: "tos-panel tos-error",
    "data-tos": "error",
    "aria-label": t("Error"),
    hidden: true,
  });
  private shown = "";

  draw(model: RunModel): void {
    this.show(model.run?.error ?? null);
  }

  show(error: WorkerError | null): void {
    const signature = JSON.stringify(error);
    if (signature === this.shown) return;
    this.shown = signature;
    this.element.hidden = error === null;
    this.element.replaceChildren(...(error === null ? [] : contents(error)));
  }
}

function contents(error: WorkerError): Node[] {
  const nodes: Node[] = [h("p", { class: "tos-error-message" }, error.message)];
  if (error.where) nodes.push(h("p", { class: "tos-caption" }, t("On %1.", error.where)));
  if (error.frames.length > 0)
    nodes.push(h("pre", { tabindex: 0 }, error.frames.map((frame) => frame.trimEnd()).join("\n")));
  if (error.rest) {
    const rest = h("pre", { tabindex: 0 }, error.rest);
    nodes.push(h("details", {}, h("summary", {}, t("Everything else")), rest));
  }
  return nodes;
}
