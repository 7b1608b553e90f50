/** A chart's curves by name, each a button that hides it, with the value at the cursor. */

import type { ChartState } from "./charts-state";
import { type Curve, keyOf, valueAt } from "./curves";
import { h, setAttribute, setText } from "./dom";
import { number } from "./format";
import { t } from "./text";

interface Entry {
  button: HTMLButtonElement;
  name: HTMLElement;
  value: HTMLElement;
}

export class Legend {
  readonly element = h("span", { class: "tos-curves" });
  /** A line of its own, for other runs. */
  readonly others = h("div", { class: "tos-curves tos-besides", hidden: true });
  private readonly entries = new Map<string, Entry>();

  constructor(private readonly state: ChartState) {}

  /** `now` stands for the latest value of training, if anything does. */
  draw(drawn: readonly Curve[], now: number | null): void {
    const shown = new Map<string, Curve[]>();
    for (const curve of drawn.filter(({ raw }) => !raw)) {
      const key = keyOf(curve);
      shown.set(key, [...(shown.get(key) ?? []), curve]);
    }
    for (const [key, { button }] of this.entries) {
      if (shown.has(key)) continue;
      button.remove();
      this.entries.delete(key);
    }
    for (const [key, curves] of shown) {
      const entry = this.entries.get(key) ?? this.enter(key, curves[0]);
      const name = curves[0].beside?.name ?? curves[0].label;
      // The chart's menu and this button's title have all of it.
      setText(entry.name, curves[0].beside?.name ?? name.split(", ")[0]);
      setAttribute(entry.button, "title", t("Show or hide %1", name));
      setAttribute(entry.button, "aria-pressed", String(!this.state.hidden.has(key)));
      // Of another run as of one's own: training, then validation.
      const values = curves.map((curve) => number(this.value(curve, now)));
      setText(entry.value, values.join(" · "));
    }
    this.others.hidden = this.others.childElementCount === 0;
  }

  private value(curve: Curve, now: number | null): number | null {
    const { cursor } = this.state;
    if (cursor !== null) return valueAt(curve, cursor);
    const own = curve.split === "training" && !curve.beside ? now : null;
    return own ?? valueAt(curve, Infinity);
  }

  private enter(key: string, { split, beside }: Curve): Entry {
    // For eyes only: a name that changes five times a second cannot be listened to.
    const value = h("span", { class: "tos-curve-value", "aria-hidden": "true" });
    const line = h("span", { class: "tos-line", "aria-hidden": "true" });
    const name = h("span", { class: "tos-curve-name" });
    const whose = beside ? { "data-place": beside.place } : { "data-split": split };
    const button = h("button", { class: "tos-curve", ...whose }, ...[line, name, value]);
    button.addEventListener("click", () => {
      this.state.toggle(key);
    });
    (beside ? this.others : this.element).append(button);
    const entry = { button, name, value };
    this.entries.set(key, entry);
    return entry;
  }
}
