/** How all charts of a view are drawn: over what, how smooth, how high. */

import type { ChartState } from "./charts-state";
import type { Axis } from "./curves";
import { h, setText, uniqueId } from "./dom";
import { prefer, preferred } from "./preferences";
import { t } from "./text";

export class Toolbar {
  readonly axis = h(
    "select",
    { id: uniqueId("axis"), "data-tos": "axis" },
    h("option", { value: "time" }, t("time")),
    h("option", { value: "samples" }, t("samples")),
    h("option", { value: "epoch" }, t("epochs")),
  );
  private readonly live = h(
    "button",
    { class: "tos-chip", "data-tos": "live", hidden: true },
    t("◉ live"),
  );
  readonly element: HTMLElement;

  constructor(private readonly state: ChartState) {
    const { log, outliers } = state.options;
    const smoothing = Number(preferred("smoothing") ?? state.options.smoothing);
    state.options.smoothing = smoothing;
    const range = h("input", {
      ...{ id: uniqueId("smoothing"), type: "range", min: 0, max: 0.99, step: 0.01 },
      ...{ value: smoothing, "data-tos": "smoothing" },
    });
    const value = h("output", { for: range.id, class: "tos-smoothing" }, smoothing.toFixed(2));
    const box = (name: string, checked: boolean): HTMLInputElement =>
      h("input", { id: uniqueId(name), type: "checkbox", "data-tos": name, checked });
    const [logarithmic, all] = [box("log-scale", log), box("outliers", outliers)];
    const choose = (): void => {
      setText(value, Number(range.value).toFixed(2));
      prefer("smoothing", range.value);
      state.change({
        axis: this.axis.value as Axis,
        smoothing: Number(range.value),
        log: logarithmic.checked,
        outliers: all.checked,
      });
    };
    for (const input of [this.axis, range, logarithmic, all]) {
      input.addEventListener("input", choose);
    }
    this.live.addEventListener("click", () => {
      state.look(null);
    });
    const field = (text: string, input: HTMLElement, ...more: HTMLElement[]): HTMLElement =>
      h("span", { class: "tos-field" }, h("label", { for: input.id }, text), input, ...more);
    this.element = h(
      "div",
      { class: "tos-toolbar" },
      field(t("Over"), this.axis),
      field(t("Smoothing"), range, value),
      field(t("Log loss"), logarithmic),
      field(t("Outliers"), all),
      this.live,
    );
  }

  draw(): void {
    this.live.hidden = this.state.zoom === null;
  }
}
