/** The button that gives the view the whole screen, where the page may do that. */

import { h } from "./dom";
import { t } from "./text";

/** Pixels around the view there, see the styles; and those that are not worth another drawing. */
const [PADDING, NEAR] = [24, 8];

export class Whole {
  readonly button: HTMLButtonElement;
  private given = 0;

  constructor(private readonly root: HTMLElement) {
    const label = t("Show it on the whole screen; Escape ends that");
    this.button = h(
      "button",
      {
        class: "tos-whole",
        "data-tos": "whole",
        "aria-label": label,
        title: label,
      },
      "⤢",
    );
    this.button.hidden = !document.fullscreenEnabled;
    this.button.addEventListener("click", () => {
      // What the page does not allow changes nothing.
      void (this.shown ? document.exitFullscreen() : root.requestFullscreen()).catch(
        () => undefined,
      );
    });
  }

  /** Pixels that `body` may be higher than in its place in a page. */
  room(body: HTMLElement): number {
    const free = this.root.clientHeight - PADDING - body.offsetHeight;
    if (!this.shown) this.given = 0;
    else if (free < 0 || free > NEAR) this.given = Math.max(0, this.given + free);
    return this.given;
  }

  private get shown(): boolean {
    return document.fullscreenElement === this.root;
  }
}
