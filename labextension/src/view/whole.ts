/** The button that gives the view the whole screen, where the page may do that. */

import { h } from "./dom";
import { t } from "./text";

export class Whole {
  readonly button: HTMLButtonElement;

  constructor(root: HTMLElement) {
    const label = t("Show it on the whole screen; Escape ends that");
    this.button = h(
      "button",
      {
        type: "button",
        class: "tos-whole",
        "data-tos": "whole",
        "aria-label": label,
        title: label,
      },
      "⤢",
    );
    this.button.hidden = !document.fullscreenEnabled;
    this.button.addEventListener("click", () => {
      const wanted = document.fullscreenElement === root;
      // What the page does not allow changes nothing.
      void (wanted ? document.exitFullscreen() : root.requestFullscreen()).catch(() => undefined);
    });
  }
}
