/** A chart's curves by name, each a button that hides it, with the value at the cursor. */

import type { ChartState } from "./charts-state";
import { type Curve, valueAt } from "./curves";
import { h, setAttribute, setText } from "./dom";
import { number } from "./format";
import type { Split } from "./model";
import { t } from "./text";

interface Entry {
  button: HTMLButtonElement;
  value: HTMLElement;
}

export class Legend {
  readonly element = h("span", { class: "tos-curves" });
  private readonly entries = new Map<Split, Entry>();

  constructor(private readonly state: ChartState) {}

  /** `now` stands for the latest value of training, if anything does. */
  draw(drawn: readonly Curve[], now: number | null): void {
    const shown = drawn.filter(({ raw }) => !raw);
    for (const [split, { button }] of this.entries) {
      if (shown.some((curve) => curve.split === split)) continue;
      button.remove();
      this.entries.delete(split);
    }
    for (const curve of shown) {
      const entry = this.entry(curve);
      setAttribute(entry.button, "aria-pressed", String(!this.state.hidden.has(curve.split)));
      const { cursor } = this.state;
      const latest = (curve.split === "training" ? now : null) ?? valueAt(curve, Infinity);
      setText(entry.value, number(cursor === null ? latest : valueAt(curve, cursor)));
    }
  }

  private entry({ split, label }: Curve): Entry {
    const known = this.entries.get(split);
    if (known) return known;
    // For eyes only: a name that changes five times a second cannot be listened to.
    const value = h("span", { class: "tos-curve-value", "aria-hidden": "true" });
    const line = h("span", { class: "tos-line", "aria-hidden": "true" });
    const button = h(
      "button",
      {
        type: "button",
        class: "tos-curve",
        "data-split": split,
        title: t("Show or hide %1", label),
      },
      ...[line, h("span", { class: "tos-curve-name" }, label), value],
    );
    button.addEventListener("click", () => {
      this.state.toggle(split);
    });
    this.element.append(button);
    const entry = { button, value };
    this.entries.set(split, entry);
    return entry;
  }
}
