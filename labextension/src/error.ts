/** What ended the run: the message, the user's own lines, then the rest in a fold. */

import { h } from "./dom";
import type { RunModel, WorkerError } from "./model";

export class ErrorPane {
  readonly element = h("section", {
    class: "tos-panel tos-error",
    "data-tos": "error",
    "aria-label": "Error",
    hidden: true,
  });
  private shown = "";

  draw(model: RunModel): void {
    const error = model.run?.error ?? null;
    const signature = JSON.stringify(error);
    if (signature === this.shown) return;
    this.shown = signature;
    this.element.hidden = error === null;
    this.element.replaceChildren(...(error === null ? [] : contents(error)));
  }
}

/** Where it happened, as far as it is known. */
export function place({ executor, partition, attempt }: WorkerError): string {
  const parts = [
    executor === null ? "" : `executor ${executor}`,
    partition === null ? "" : `partition ${partition}`,
    attempt === null ? "" : `attempt ${attempt}`,
  ];
  return parts.filter((part) => part !== "").join(", ");
}

function contents(error: WorkerError): Node[] {
  const where = place(error);
  const nodes: Node[] = [h("p", { class: "tos-error-message" }, error.message)];
  if (where) nodes.push(h("p", { class: "tos-caption" }, `On ${where}.`));
  if (error.frames.length > 0)
    nodes.push(h("pre", { tabindex: 0 }, error.frames.map((frame) => frame.trimEnd()).join("\n")));
  if (error.rest) {
    const rest = h("pre", { tabindex: 0 }, error.rest);
    nodes.push(h("details", {}, h("summary", {}, "Everything else"), rest));
  }
  return nodes;
}
