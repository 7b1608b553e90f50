/** Something that a button opens over the charts: nothing else moves. */

import { h, setAttribute, uniqueId } from "./dom";
import { t } from "./text";

export class Drawer {
  readonly element: HTMLElement;
  private readonly title = h("strong");

  /** `moved` is called when it was opened or closed. */
  constructor(
    readonly button: HTMLButtonElement,
    contents: readonly HTMLElement[],
    private readonly moved: () => void,
  ) {
    const id = uniqueId("drawer");
    const close = h("button", { class: "tos-close", "aria-label": t("Close") }, "×");
    const head = h("div", { class: "tos-drawer-head" }, this.title, close);
    this.element = h(
      "div",
      { role: "group", id, class: "tos-drawer", hidden: true },
      head,
      ...contents,
    );
    setAttribute(button, "aria-controls", id);
    setAttribute(button, "aria-expanded", "false");
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") === "true") return;
      this.open(!this.isOpen);
      if (!this.isOpen) return;
      // What is below the window is brought there: its last line applies what is changed.
      this.element.scrollIntoView({ block: "nearest" });
      this.first()?.focus({ preventScroll: true });
    });
    close.addEventListener("click", this.leave);
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.leave();
    });
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  open(open: boolean): void {
    if (open === this.isOpen) return;
    this.element.hidden = !open;
    setAttribute(this.button, "aria-expanded", String(open));
    this.moved();
  }

  /** Bring it back into the window if a person is in it. */
  bring(): void {
    if (this.element.matches(":focus-within")) this.element.scrollIntoView({ block: "nearest" });
  }

  name(text: string): void {
    if (this.title.textContent === text) return;
    this.title.textContent = text;
    setAttribute(this.element, "aria-label", text);
  }

  private readonly leave = (): void => {
    this.open(false);
    this.button.focus({ preventScroll: true });
  };

  private first(): HTMLElement | null {
    return this.element.querySelector<HTMLElement>(
      ":is(select, input, .tos-drawer-body button):not(:disabled)",
    );
  }
}
