/** The side panel: each kernel's cluster, and its runs. */

import type { TranslationBundle } from "@jupyterlab/translation";
import type { Message } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";

import { h, setAttribute } from "../view/dom";
import { tosIcon } from "./icon";
import type { Kernel, Kernels } from "./kernels";
import { arrange, type PanelContext } from "./panel-context";
import { Section } from "./panel-section";

export class Panel extends Widget {
  private readonly sections = new Map<Kernel, Section>();
  private readonly list = h("div");
  private readonly beginning: HTMLElement;
  private frame = 0;

  constructor(
    private readonly kernels: Kernels,
    private readonly context: PanelContext,
    private readonly onSight: (seen: boolean) => void = () => undefined,
  ) {
    super();
    const { trans } = context;
    this.id = "tos-panel";
    this.addClass("tos-lab-panel");
    this.title.icon = tosIcon;
    this.title.caption = trans.__("TensorOnSpark runs");
    this.node.tabIndex = -1;
    setAttribute(this.node, "role", "region");
    setAttribute(this.node, "aria-label", this.title.caption);
    this.beginning = beginning(trans);
    const heading = h("h2", { class: "tos-lab-heading" }, trans.__("TensorOnSpark"));
    this.node.append(heading, this.beginning, this.list);
    kernels.changed.connect(this.request, this);
  }

  override dispose(): void {
    cancelAnimationFrame(this.frame);
    super.dispose();
  }

  override processMessage(message: Message): void {
    super.processMessage(message);
    if (!/^after-(attach|detach|show|hide)$/.test(message.type)) return;
    this.onSight(this.isVisible);
    this.request();
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  private readonly request = (): void => {
    if (this.frame !== 0 || !this.isVisible) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.isVisible) this.draw();
    });
  };

  private draw(): void {
    const shown = [...this.kernels].filter(({ state }) => state !== "absent");
    this.beginning.toggleAttribute("hidden", shown.length > 0);
    arrange(this.list, this.sections, shown, (kernel) => new Section(kernel, this.context));
    for (const section of this.sections.values()) section.draw();
  }
}

/** What to do where nothing is to be seen yet. */
function beginning(trans: TranslationBundle): HTMLElement {
  const step = (code: string, what: string): HTMLElement =>
    h("li", {}, h("code", {}, code), " ", what);
  return h(
    "div",
    { class: "tos-lab-beginning" },
    h("p", {}, trans.__("No kernel trains on Spark yet. In a notebook:")),
    h(
      "ol",
      {},
      step("%load_ext tos_notebook", trans.__("loads the magics.")),
      step("%tos_connect", trans.__("connects to Spark.")),
      step("%%tos_train", trans.__("as a cell's first line trains what the cell describes.")),
    ),
  );
}
