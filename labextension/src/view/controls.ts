/** Buttons and fields that steer the run, each with a note on what became of it. */

import { Stop, Toggle } from "./buttons";
import { Chaos } from "./chaos";
import { h, setAttribute, setText, uniqueId } from "./dom";
import { number } from "./format";
import { hasEnded, type RunModel } from "./model";
import { type Answer, type ControlName, note, type Request, unavailable } from "./requests";
import { t } from "./text";

export type Send = (command: string, arguments_: Record<string, unknown>) => number;

interface Control {
  name: ControlName;
  element: HTMLElement;
  button: HTMLButtonElement;
  input: HTMLInputElement | HTMLSelectElement | null;
  note: HTMLElement;
  request: Request | null;
  id: number;
}

const ENDS: Record<string, () => string> = {
  finished: () => t("The run has finished: all its epochs are done, so there is nothing to steer."),
  stopped: () => t("The run was stopped and kept its weights, so there is nothing to steer."),
  failed: () => t("The run has failed, so there is nothing to steer."),
  lost: () => t("The run was lost with its kernel, so there is nothing to steer."),
};

export class Controls {
  readonly element: HTMLElement;
  private readonly fieldset = h(
    "fieldset",
    {},
    h("legend", { class: "tos-hidden" }, t("Controls")),
  );
  private readonly why = h("p", { class: "tos-caption", hidden: true });
  private readonly controls: Control[];
  private readonly chaos: Chaos;
  private readonly toggle: Toggle;
  private readonly stop: Stop;
  /** Whether the stop button asks for its second click. */
  private asking = false;
  private model: RunModel | null = null;
  private frozen = false;

  constructor(
    private readonly send: Send,
    private readonly now: () => number,
  ) {
    const [toggling, stopping] = [uniqueId("toggle"), uniqueId("stop")];
    this.toggle = new Toggle(toggling, () => {
      this.submit(toggle, this.toggle.command, {});
    });
    this.stop = new Stop(
      stopping,
      () => {
        this.submit(stop, "stop", {});
      },
      (asking) => {
        this.asking = asking;
        this.drawNotes();
      },
    );
    const toggle = plain("toggle", this.toggle.button, toggling);
    const stop = plain("stop", this.stop.button, stopping);
    const forms = this.forms();
    const chaos = this.chaosControl();
    this.chaos = chaos.form;
    this.controls = [toggle, stop, ...forms, chaos.control];
    this.fieldset.append(
      h("div", { class: "tos-buttons" }, toggle.button, stop.button),
      // Below the buttons, which whatever it says leaves where they are.
      h("p", { class: "tos-notes", role: "status" }, toggle.note, stop.note),
      h("div", { class: "tos-forms" }, ...forms.map(({ element }) => element)),
      this.chaos.element,
    );
    this.element = h(
      "section",
      { class: "tos-panel tos-controls", "aria-label": t("Controls") },
      this.fieldset,
      this.why,
    );
  }

  /** The kernel's answer to a command that was sent from here. */
  answer(id: number, answer: Answer): void {
    const control = this.controls.find((one) => one.id === id && one.request !== null);
    if (control?.request) control.request.answer = answer;
    this.drawNotes();
  }

  destroy(): void {
    this.toggle.destroy();
    this.stop.destroy();
  }

  /** No kernel would hear a command now. */
  freeze(frozen: boolean): void {
    this.frozen = this.fieldset.disabled = frozen;
    if (this.model) this.draw(this.model);
  }

  draw(model: RunModel): void {
    this.model = model;
    const { run } = model;
    if (run === null) return;
    const ended = hasEnded(run.state);
    this.fieldset.disabled = ended || this.frozen;
    this.why.hidden = !ended;
    if (ended) setText(this.why, ENDS[run.state]());
    this.toggle.draw(run.state);
    for (const control of this.controls) {
      const reason = unavailable(control.name, run.state, run.has_learning_rate);
      // Not `disabled`: a button that was just pressed would lose the keyboard's focus.
      setAttribute(control.button, "aria-disabled", String(reason !== ""));
      setAttribute(control.button, "title", reason);
      const needsRate = control.name === "learning-rate" && !run.has_learning_rate;
      if (control.input) control.input.disabled = needsRate;
    }
    this.stop.draw(run.number, !this.fieldset.disabled && run.state !== "stopping");
    this.chaos.draw(model, unavailable("chaos", run.state, run.has_learning_rate));
    this.fill("repartition", String(run.partitions));
    this.fill("sync-interval", run.sync_interval === null ? "" : String(run.sync_interval));
    const rate = run.learning_rate === null ? "" : number(run.learning_rate).replaceAll(",", "");
    this.fill("learning-rate", rate);
    this.choose("combiner", run.combiners, run.combiner);
    this.choose("sync", run.syncs, run.sync);
    this.choose("codec", run.codecs, run.codec);
    this.drawNotes();
  }

  /** Also called as time passes: an answer that is late says so. */
  drawNotes(): void {
    const commands = this.model?.commands ?? [];
    const run = this.model?.run;
    for (const control of this.controls) {
      const asks = control.name === "stop" && this.asking;
      const text = asks
        ? t("Click again to stop the run. It keeps its weights, and cannot go on.")
        : note(control.name, control.request, commands, this.now());
      const rateless = control.name === "learning-rate" && run && !run.has_learning_rate;
      setText(control.note, text === "" && rateless ? t("is no variable of the program") : text);
    }
  }

  private chaosControl(): { form: Chaos; control: Control } {
    const form = new Chaos((arguments_) => {
      this.submit(control, "chaos", arguments_);
    });
    const { element, slow: button, note: noted } = form;
    const made = { name: "chaos", element, button, input: null, note: noted } as const;
    const control: Control = { ...made, request: null, id: -1 };
    return { form, control };
  }

  private forms(): Control[] {
    const rate = h("input", { type: "number", min: 0, step: "any", size: 8, required: true });
    const whole = (): HTMLInputElement =>
      h("input", { type: "number", min: 1, step: 1, size: 6, required: true });
    const [partitions, every] = [t("Partitions"), t("Exchange every (batches)")];
    return [
      this.form("repartition", partitions, t("Repartition"), whole(), "repartition", (value) => ({
        partitions: Number(value),
      })),
      this.form("combiner", t("Combiner"), t("Swap"), h("select"), "swap combiner", (value) => ({
        combiner: value,
      })),
      this.form("sync", t("Sync mode"), t("Set"), h("select"), "set", (value) => ({ sync: value })),
      this.form("sync-interval", every, t("Set"), whole(), "set", (value) => ({
        sync_interval: Number(value),
      })),
      this.form("codec", t("Codec"), t("Set"), h("select"), "set", (value) => ({ codec: value })),
      this.form("learning-rate", t("Learning rate"), t("Set"), rate, "set", (value) => ({
        learning_rate: Number(value),
      })),
    ];
  }

  private form(
    name: ControlName,
    label: string,
    verb: string,
    input: HTMLInputElement | HTMLSelectElement,
    command: string,
    toArguments: (value: string) => Record<string, unknown>,
  ): Control {
    const [inputId, noteId] = [uniqueId(name), uniqueId(name)];
    input.id = inputId;
    const button = h(
      "button",
      { type: "submit", "aria-label": t("%1: %2", verb, label), "aria-describedby": noteId },
      verb,
    );
    const noted = h("span", { id: noteId, class: "tos-note" });
    const element = h(
      "form",
      { class: "tos-control", "data-tos": name },
      h("label", { for: inputId }, label),
      h("span", { class: "tos-pair" }, input, button),
      noted,
    );
    const control = { name, element, button, input, note: noted, request: null, id: -1 };
    input.addEventListener("input", () => {
      input.dataset.edited = "";
    });
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(control, command, toArguments(input.value));
    });
    return control;
  }

  private submit(control: Control, command: string, arguments_: Record<string, unknown>): void {
    const run = this.model?.run;
    if (!run || unavailable(control.name, run.state, run.has_learning_rate) !== "") return;
    if (control.request?.answer === null) return;
    const before = this.model?.commands.at(-1)?.time ?? -1;
    control.request = { sent: this.now(), before, answer: null };
    control.id = this.send(command, arguments_);
    if (control.input) delete control.input.dataset.edited;
    this.drawNotes();
  }

  /** Show what is in force, but never over what a person is typing. */
  private fill(name: ControlName, value: string): void {
    const input = this.controls.find((control) => control.name === name)?.input;
    if (!input || "edited" in input.dataset || input === document.activeElement) return;
    if (value !== input.dataset.force) {
      input.dataset.force = value;
      input.value = value;
    }
  }

  /** Offer names, with what is in force among them. */
  private choose(control: ControlName, names: string[], current: string): void {
    const select = this.controls.find(({ name }) => name === control)?.input;
    if (!select) return;
    const all = names.includes(current) ? names : [current, ...names];
    if (select.dataset.names !== all.join()) {
      select.dataset.names = all.join();
      delete select.dataset.force;
      select.replaceChildren(...all.map((name) => h("option", { value: name }, name)));
    }
    this.fill(control, current);
  }
}

/** A button without fields, whose note stands elsewhere. */
function plain(name: ControlName, button: HTMLButtonElement, noteId: string): Control {
  const noted = h("span", { id: noteId, class: "tos-note" });
  return { name, element: button, button, input: null, note: noted, request: null, id: -1 };
}
