/** What stands in the place of charts while a run is queued, and where it ended before a curve. */

import { h, setText } from "./dom";
import { hasEnded, type RunModel } from "./model";
import { isQueued } from "./notices";
import { t } from "./text";

export class Nothing {
  private readonly said = h("p");
  private readonly lines = h("pre", { tabindex: 0, hidden: true });
  readonly element = h(
    "div",
    { class: "tos-nothing", "data-tos": "nothing", hidden: true },
    ...[this.said, this.lines],
  );

  /** Returns whether it is shown, so many pixels high; `others` are drawn all the same. */
  draw({ run, series }: RunModel, others: boolean, height: number): boolean {
    const empty = series.every(({ points }) => points.length === 0);
    const queued = run !== null && isQueued(run);
    const bare = run !== null && (queued || hasEnded(run.state)) && empty && !others;
    this.element.hidden = !bare;
    if (!bare) return false;
    this.element.style.height = `${height}px`;
    const { error } = run;
    const ended = t("The run ended before its first milestone, so it has no curve.");
    setText(this.said, queued ? (run.waits ?? []).join(" ") : ended);
    const own = (error?.frames ?? []).map((frame) => frame.trimEnd()).join("\n");
    setText(this.lines, own || (error?.rest ?? ""));
    this.lines.hidden = this.lines.textContent === "";
    return true;
  }
}
