/** One run in the panel. */

import { Notification } from "@jupyterlab/apputils";

import { Question } from "../view/buttons";
import { h, setAttribute, setText } from "../view/dom";
import { duration, number, short } from "../view/format";
import { busiestLink } from "../view/links";
import { hasEnded } from "../view/model";
import { isOffered, STOP, TOGGLE, unavailable } from "../view/requests";
import { notices } from "../view/notices";
import { sign, word } from "../view/words";
import type { Kernel } from "./kernels";
import type { PanelContext } from "./panel-context";
import type { RunRow } from "./protocol";
import { called, concern, stateOf, titled, toGo, validated } from "./run-words";
import { inWords, sparkline, updateSparkline } from "./sparkline";

type Verb = "pause" | "unpause" | "stop";

/** Its button `open` covers the row. */
export class Row {
  private readonly choice = h("input", { type: "checkbox", class: "tos-lab-choice" });
  private readonly open = h("button", { class: "tos-lab-open" });
  private readonly state = h("span", { class: "tos-lab-state" });
  private readonly numbers = h("span", { class: "tos-lab-numbers" });
  private readonly warning = h("span", { class: "tos-lab-warning" });
  private readonly curve = sparkline([], "");
  private readonly error = h("span", { class: "tos-lab-error" });
  private readonly asks = h("span", { class: "tos-lab-asks", role: "status" });
  private readonly pause = h("button", { "data-tos": "pause" });
  private readonly stop = h("button", { "data-tos": "stop" });
  private readonly remove = h("button", { "data-tos": "remove" }, "✕");
  private readonly actions = h(
    "span",
    { class: "tos-lab-actions" },
    ...[this.pause, this.stop, this.remove],
  );
  private readonly question: Question;
  private toggle: Verb = "pause";
  /** What the kernel has not answered yet. */
  private readonly asked = new Set<Verb>();
  readonly element: HTMLElement;

  constructor(
    private readonly kernel: Kernel,
    private readonly id: string,
    private readonly context: PanelContext,
    onChoice: (chosen: boolean) => void = () => undefined,
  ) {
    const parts = [this.choice, this.open, this.state, this.actions, this.asks, this.numbers];
    this.element = h("li", {}, ...parts, this.warning, this.curve, this.error);
    this.choice.addEventListener("change", () => {
      onChoice(this.choice.checked);
    });
    this.remove.addEventListener("click", () => {
      kernel.hide(id);
    });
    this.open.addEventListener("click", () => {
      context.openRun(kernel, id);
    });
    this.pause.addEventListener("click", () => {
      void this.steer(this.toggle);
    });
    const stop = (): void => void this.steer("stop");
    this.question = new Question(this.stop, stop, this.drawStop);
  }

  draw(): void {
    const row = this.kernel.overview.run(this.id);
    if (row === null) return;
    const { trans } = this.context;
    const ended = hasEnded(row.state);
    const state = stateOf(this.kernel, row);
    const name = called(row, trans);
    setText(this.open, titled(row, trans));
    setAttribute(this.open, "title", trans.__("Run %1", row.number));
    setAttribute(this.open, "aria-label", trans.__("Open %1", name));
    setAttribute(this.choice, "aria-label", trans.__("Compare %1", name));
    setAttribute(this.choice, "title", trans.__("Compare with others that are checked"));
    // There is nothing to compare yet.
    this.choice.toggleAttribute("disabled", row.milestones === 0);
    setText(this.state, `${sign(state)} ${word(state)}`);
    setAttribute(this.element, "data-state", state);
    // An error has their place.
    this.drawNumbers(row.error === null ? this.facts(row, state) : []);
    const worry = ended || state === "lost" ? "" : concern(row, trans);
    setText(this.warning, worry && `⚠ ${worry}`);
    updateSparkline(this.curve, row.spark, inWords(row.spark, trans));
    this.curve.toggleAttribute("hidden", row.spark.length === 0);
    setAttribute(this.error, "data-kind", row.error === null ? "wait" : "error");
    setText(
      this.error,
      row.error ??
        notices({ ...row, state })
          .map(({ text }) => text)
          .join("\n"),
    );
    this.drawActions(row, ended);
  }

  /** How far it is, what it is worth, and how fast, each if it is known. */
  private facts(row: RunRow, state: string): string[] {
    const { trans } = this.context;
    const ended = hasEnded(state);
    if (row.milestones === 0 && !ended) return [];
    const busiest = ended ? "" : busiestLink(row.links);
    return [
      trans.__("epoch %1/%2", row.epoch, row.epochs),
      ended ? duration(row.elapsed) : state === "lost" ? "" : toGo(row, trans),
      validated(row, trans).join(", "),
      row.loss === null ? "" : trans.__("loss %1", number(row.loss)),
      row.samples_per_second ? trans.__("%1 samples/s", short(row.samples_per_second)) : "",
      busiest && trans.__("busiest link %1", busiest),
    ].filter(Boolean);
  }

  private drawNumbers(texts: string[]): void {
    const { children } = this.numbers;
    while (children.length > texts.length) this.numbers.lastElementChild?.remove();
    while (children.length < texts.length) this.numbers.append(h("span"));
    texts.forEach((text, i) => {
      setText(children[i], text);
    });
  }

  private drawActions(row: RunRow, ended: boolean): void {
    const { state } = row;
    const { trans } = this.context;
    const run = called(row, trans);
    const open = this.kernel.state === "open";
    const usable = open && !ended;
    const focused = this.actions.contains(document.activeElement);
    this.actions.toggleAttribute("hidden", !open);
    label(this.remove, "✕", trans.__("Remove %1 from this list", run));
    this.remove.toggleAttribute("hidden", !ended);
    this.toggle = state === "paused" ? "unpause" : "pause";
    if (this.toggle === "pause") label(this.pause, "‖", trans.__("Pause %1", run));
    else label(this.pause, "▶", trans.__("Unpause %1", run));
    for (const [button, ask] of [
      [this.pause, TOGGLE],
      [this.stop, STOP],
    ] as const) {
      button.toggleAttribute("hidden", ended || !isOffered(row, ask));
      // Not `disabled`: a button that was just pressed would lose the keyboard's focus.
      const reason = unavailable(row, ask);
      setAttribute(button, "aria-disabled", String(reason !== ""));
    }
    if (focused && !usable) this.open.focus();
    if (!usable || this.stop.getAttribute("aria-disabled") === "true") this.question.withdraw();
    this.drawStop("armed" in this.stop.dataset);
  }

  private readonly drawStop = (asking: boolean): void => {
    const row = this.kernel.overview.run(this.id);
    const { trans } = this.context;
    const run = row ? called(row, trans) : "";
    const text = asking
      ? trans.__("Click again to stop %1 and keep its weights", run)
      : trans.__("Stop %1 and keep its weights", run);
    label(this.stop, asking ? "■?" : "■", text);
    setText(this.asks, asking ? `${text}.` : "");
  };

  private async steer(verb: Verb): Promise<void> {
    const button = verb === "stop" ? this.stop : this.pause;
    if (this.asked.has(verb) || button.getAttribute("aria-disabled") === "true") return;
    this.asked.add(verb);
    const { ok, text } = await this.kernel
      .command(this.id, verb)
      .catch((reason: unknown) => ({ ok: false, text: String(reason) }));
    this.asked.delete(verb);
    if (!ok) Notification.error(text);
  }
}

function label(button: HTMLElement, sign: string, text: string): void {
  setText(button, sign);
  setAttribute(button, "aria-label", text);
  setAttribute(button, "title", text);
}
