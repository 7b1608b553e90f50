/** TensorBoard beside a cluster: a link, and its page in a frame that is loaded when it is opened. */

import { h, setAttribute } from "./dom";
import { t } from "./text";

const HERE = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** Whether this browser may reach an address: one of the kernel's own machine only from there. */
export function reachable(address: string, page: string): boolean {
  const { protocol, hostname } = new URL(address);
  return /^https?:$/.test(protocol) && (!HERE.test(hostname) || HERE.test(page));
}

export class Board {
  private readonly link = h("a", { target: "_blank", rel: "noopener" }, t("Open TensorBoard"));
  private readonly frame = h("iframe", { title: "TensorBoard", loading: "lazy" });
  private readonly details = h("details", {}, h("summary", {}, "TensorBoard"));
  private readonly elsewhere = h("p", { class: "tos-caption" });
  readonly element = h(
    "div",
    {
      role: "group",
      class: "tos-panel tos-board",
      "data-tos": "tensorboard",
      "aria-label": "TensorBoard",
    },
    ...[this.link, this.details, this.elsewhere],
  );
  private address: string | null = null;

  constructor() {
    this.element.hidden = true;
    this.details.append(this.frame);
    this.details.addEventListener("toggle", () => {
      if (this.details.open && this.address) setAttribute(this.frame, "src", this.address);
    });
  }

  draw(address: string | null, active: boolean): void {
    this.element.hidden = address === null || !active;
    if (address === null || address === this.address || !URL.canParse(address)) return;
    this.address = address;
    const near = reachable(address, window.location.hostname);
    this.link.hidden = this.details.hidden = !near;
    this.elsewhere.hidden = near;
    if (near) setAttribute(this.link, "href", address);
    else {
      this.elsewhere.textContent = t("TensorBoard is at %1, on the kernel's machine.", address);
    }
  }
}
