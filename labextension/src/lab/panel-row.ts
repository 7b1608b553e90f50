/** One run in the panel. */

import { Notification } from "@jupyterlab/apputils";

import { Question } from "../view/buttons";
import { h, setAttribute, setText } from "../view/dom";
import { number, short } from "../view/format";
import { busiestLink } from "../view/links";
import { hasEnded } from "../view/model";
import { isOffered, STOP, TOGGLE, unavailable } from "../view/requests";
import { notices } from "../view/notices";
import { sign, word } from "../view/words";
import type { Kernel } from "./kernels";
import type { PanelContext } from "./panel-context";
import type { RunRow } from "./protocol";
import { inWords, sparkline, updateSparkline } from "./sparkline";
import { stateOf, validated } from "./status-item";

type Verb = "pause" | "unpause" | "stop";

/** Its first button covers the row. */
export class Row {
  private readonly open = h("button", { type: "button", class: "tos-lab-open" });
  private readonly state = h("span", { class: "tos-lab-state" });
  private readonly numbers = [h("span"), h("span"), h("span"), h("span"), h("span")];
  private readonly curve = sparkline([], "");
  private readonly error = h("span", { class: "tos-lab-error" });
  private readonly asks = h("span", { class: "tos-lab-asks", role: "status" });
  private readonly pause = h("button", { type: "button", "data-tos": "pause" });
  private readonly stop = h("button", { type: "button", "data-tos": "stop" });
  private readonly actions = h("span", { class: "tos-lab-actions" }, this.pause, this.stop);
  private readonly question: Question;
  private toggle: Verb = "pause";
  /** What the kernel has not answered yet. */
  private readonly asked = new Set<Verb>();
  readonly element: HTMLElement;

  constructor(
    private readonly kernel: Kernel,
    private readonly id: string,
    private readonly context: PanelContext,
  ) {
    const numbers = h("span", { class: "tos-lab-numbers" }, ...this.numbers);
    const parts = [this.open, this.state, this.actions, this.asks, numbers];
    this.element = h("li", {}, ...parts, this.curve, this.error);
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
    setText(this.open, trans.__("Run %1", row.number));
    setAttribute(this.open, "aria-label", trans.__("Open run %1", row.number));
    setText(this.state, `${sign(state)} ${word(state)}`);
    setAttribute(this.element, "data-state", state);
    const busiest = busiestLink(row.links);
    const numbers = [
      trans.__("epoch %1/%2", row.epoch, row.epochs),
      validated(row, trans).join(", "),
      trans.__("loss %1", number(row.loss)),
      trans.__("%1 samples/s", short(row.samples_per_second)),
      busiest === "" || ended ? "" : trans.__("busiest link %1", busiest),
    ];
    numbers.forEach((text, i) => {
      setText(this.numbers[i], text);
      this.numbers[i].toggleAttribute("hidden", text === "");
    });
    updateSparkline(this.curve, row.spark, inWords(row.spark, trans));
    setAttribute(this.error, "data-kind", row.error === null ? "wait" : "error");
    setText(
      this.error,
      row.error ??
        notices(row)
          .map(({ text }) => text)
          .join("\n"),
    );
    this.drawActions(row, this.kernel.state === "open" && !ended);
  }

  private drawActions(row: RunRow, usable: boolean): void {
    const { number: run, state } = row;
    if (!usable && this.actions.contains(document.activeElement)) this.open.focus();
    this.actions.toggleAttribute("hidden", !usable);
    const { trans } = this.context;
    this.toggle = state === "paused" ? "unpause" : "pause";
    if (this.toggle === "pause") label(this.pause, "‖", trans.__("Pause run %1", run));
    else label(this.pause, "▶", trans.__("Unpause run %1", run));
    for (const [button, ask] of [
      [this.pause, TOGGLE],
      [this.stop, STOP],
    ] as const) {
      button.toggleAttribute("hidden", !isOffered(row, ask));
      // Not `disabled`: a button that was just pressed would lose the keyboard's focus.
      const reason = unavailable(row, ask);
      setAttribute(button, "aria-disabled", String(reason !== ""));
    }
    if (!usable || this.stop.getAttribute("aria-disabled") === "true") this.question.withdraw();
    this.drawStop("armed" in this.stop.dataset);
  }

  private readonly drawStop = (asking: boolean): void => {
    const run = this.kernel.overview.run(this.id)?.number ?? "";
    const { trans } = this.context;
    const text = asking
      ? trans.__("Click again to stop run %1 and keep its weights", run)
      : trans.__("Stop run %1 and keep its weights", run);
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
