/** What ended the run: the message, the user's own lines, then the rest in a fold. */

import { h, setText } from "./dom";
import type { RunModel, WorkerError } from "./model";
import { t } from "./text";

/** Pixels of the line's height, and those of the width below which it is lower: see the styles. */
const [NARROW, LOW, HIGH] = [640, 24, 42];

export class ErrorPane {
  readonly element = h("div", {
    role: "group",
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
    nodes.push(h("details", {}, h("summary", {}, t("Full traceback")), rest));
  }
  return nodes;
}

/** The same in short, in the place of numbers that mean nothing any more. */
export class ErrorBrief {
  private readonly message = h("strong", { class: "tos-error-message" });
  private readonly where = h("span", { class: "tos-brief-where" });
  private readonly more = h("button", { "data-tos": "details" }, t("Details"));
  readonly element: HTMLElement;

  /** `open` shows the whole error. */
  constructor(open: () => void) {
    this.more.addEventListener("click", open);
    const text = h("div", { class: "tos-brief-text" }, this.message, this.where);
    this.element = h("div", { class: "tos-brief", hidden: true }, text, this.more);
  }

  /** Pixels by which its text is higher than its line is without. */
  get excess(): number {
    if (this.element.hidden) return 0;
    const line = this.element.clientWidth < NARROW ? LOW : HIGH;
    return Math.max(0, this.element.offsetHeight - line);
  }

  draw({ run, series }: RunModel): void {
    const error = run?.error ?? null;
    this.element.hidden = error === null;
    if (error === null) return;
    setText(this.message, error.message);
    this.message.title = error.message;
    // Before the first milestone all lines stand where the charts would.
    const line = series.some(({ points }) => points.length > 0) && lastLine(error.frames);
    setText(this.where, line || (error.where ? t("On %1.", error.where) : ""));
    this.where.title = this.where.textContent;
  }
}

/** The last of the user's own lines, and what stands there, in one. */
function lastLine(frames: readonly string[]): string {
  const lines = frames
    .flatMap((frame) => frame.split("\n"))
    .map((line) => line.replaceAll(/\s+/g, " ").trim())
    // Signs under a line mean nothing beside it.
    .filter((line) => /[^~^ ]/.test(line));
  return lines.slice(-2).join(": ");
}
