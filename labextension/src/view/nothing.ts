/** What stands in the place of charts where a run has ended before there was anything to draw. */

import { h, setText } from "./dom";
import { hasEnded, type RunModel } from "./model";
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
    const bare = run !== null && hasEnded(run.state) && empty && !others;
    this.element.hidden = !bare;
    if (!bare) return false;
    this.element.style.height = `${height}px`;
    const { error } = run;
    const ended = t("The run ended before its first milestone, so it has no curve.");
    const where = error?.where ? ` ${t("The error was raised on %1.", error.where)}` : "";
    setText(this.said, ended + where);
    const own = (error?.frames ?? []).map((frame) => frame.trimEnd()).join("\n");
    setText(this.lines, own || (error?.rest ?? ""));
    this.lines.hidden = this.lines.textContent === "";
    return true;
  }
}
