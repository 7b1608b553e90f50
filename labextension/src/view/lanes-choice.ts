/** How much of the time the lanes show. */

import { h, setAttribute } from "./dom";
import { t } from "./text";

export class Choice {
  readonly element = h("span", {
    ...{ class: "tos-choice", role: "group", "aria-label": t("Time that the lanes show") },
  });

  /** `choose` is given seconds, null for the latest milestones, Infinity for all. */
  constructor(choose: (seconds: number | null) => void) {
    const kinds: [string, number | null][] = [
      [t("latest"), null],
      [t("30 s"), 30],
      [t("all"), Infinity],
    ];
    const buttons = kinds.map(([text, seconds], i) => {
      const button = h("button", { "aria-pressed": String(i === 0) }, text);
      button.addEventListener("click", () => {
        for (const other of buttons) setAttribute(other, "aria-pressed", String(other === button));
        choose(seconds);
      });
      return button;
    });
    this.element.append(...buttons);
  }
}
