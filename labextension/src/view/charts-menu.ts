/** What can be done with one chart: see it large, save it. */

import { h } from "./dom";
import { t } from "./text";

export interface Actions {
  enlarge: () => void;
  save: (kind: "png" | "svg" | "csv") => void;
}

/** A button that opens a short list of buttons. */
export function menu(name: string, { enlarge, save }: Actions): HTMLDetailsElement {
  const summary = h(
    "summary",
    { "aria-label": t("More of %1", name), title: t("More of %1", name) },
    "⋯",
  );
  const list = h("div", { class: "tos-menu-list" });
  const element = h("details", { class: "tos-menu" }, summary, list);
  const close = (): void => {
    element.open = false;
  };
  const add = (text: string, act: () => void): void => {
    const button = h("button", {}, text);
    button.addEventListener("click", () => {
      close();
      summary.focus();
      act();
    });
    list.append(button);
  };
  add(t("Enlarge, or back"), enlarge);
  add(t("Save PNG"), () => {
    save("png");
  });
  add(t("Save SVG"), () => {
    save("svg");
  });
  add(t("Save CSV"), () => {
    save("csv");
  });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.open) return;
    close();
    summary.focus();
  });
  element.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget instanceof Node && !element.contains(relatedTarget)) close();
  });
  return element;
}
