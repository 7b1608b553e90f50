/** Buttons and fields that steer the run, each with a note on what became of it. */

import { h, setAttribute, setText, uniqueId } from "./dom";
import { number } from "./format";
import { hasEnded, type RunModel } from "./model";
import { type Answer, type ControlName, note, type Request, unavailable } from "./requests";

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

const ENDS: Record<string, string> = {
  finished: "The run has finished: all its epochs are done, so there is nothing to steer.",
  stopped: "The run was stopped and kept its weights, so there is nothing to steer.",
  failed: "The run has failed, so there is nothing to steer.",
};

export class Controls {
  readonly element: HTMLElement;
  private readonly fieldset = h("fieldset", {}, h("legend", { class: "tos-hidden" }, "Controls"));
  private readonly why = h("p", { class: "tos-caption", hidden: true });
  private readonly controls: Control[];
  private model: RunModel | null = null;

  constructor(
    private readonly send: Send,
    private readonly now: () => number,
  ) {
    const rate = h("input", { type: "number", min: 0, step: "any", size: 8, required: true });
    const whole = (): HTMLInputElement =>
      h("input", { type: "number", min: 1, step: 1, size: 6, required: true });
    this.controls = [
      this.button("pause", "‖ Pause", "pause"),
      this.button("resume", "▶ Resume", "resume"),
      this.button("stop", "■ Stop and keep", "stop"),
      this.form("repartition", "Partitions", "Repartition", whole(), "repartition", (value) => ({
        partitions: Number(value),
      })),
      this.form("combiner", "Combiner", "Swap", h("select"), "swap combiner", (value) => ({
        combiner: value,
      })),
      this.form("learning-rate", "Learning rate", "Set", rate, "set", (value) => ({
        learning_rate: Number(value),
      })),
      this.form("sync-interval", "Exchange every (batches)", "Set", whole(), "set", (value) => ({
        sync_interval: Number(value),
      })),
    ];
    const buttons = this.controls.slice(0, 3).map(({ element }) => element);
    const forms = this.controls.slice(3).map(({ element }) => element);
    this.fieldset.append(
      h("div", { class: "tos-buttons" }, ...buttons),
      h("div", { class: "tos-forms" }, ...forms),
    );
    this.element = h(
      "section",
      { class: "tos-panel tos-controls", "aria-label": "Controls" },
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

  draw(model: RunModel): void {
    this.model = model;
    const { run } = model;
    if (run === null) return;
    const ended = hasEnded(run.state);
    this.fieldset.disabled = ended;
    this.why.hidden = !ended;
    if (ended) setText(this.why, ENDS[run.state]);
    for (const control of this.controls) {
      const reason = unavailable(control.name, run.state, run.has_learning_rate);
      // Not `disabled`: a button that was just pressed would lose the keyboard's focus.
      setAttribute(control.button, "aria-disabled", String(reason !== ""));
      setAttribute(control.button, "title", reason);
      const needsRate = control.name === "learning-rate" && !run.has_learning_rate;
      if (control.input) control.input.disabled = needsRate;
    }
    this.fill("repartition", String(run.partitions));
    this.fill("sync-interval", run.sync_interval === null ? "" : String(run.sync_interval));
    const rate = run.learning_rate === null ? "" : number(run.learning_rate).replaceAll(",", "");
    this.fill("learning-rate", rate);
    this.fillCombiners(run.combiners, run.combiner);
    this.drawNotes();
  }

  /** Also called as time passes: an answer that is late says so. */
  drawNotes(): void {
    const commands = this.model?.commands ?? [];
    const run = this.model?.run;
    for (const control of this.controls) {
      const text = note(control.name, control.request, commands, this.now());
      const rateless = control.name === "learning-rate" && run && !run.has_learning_rate;
      setText(control.note, text === "" && rateless ? "is no variable of the program" : text);
    }
  }

  private button(name: ControlName, text: string, command: string): Control {
    const noteId = uniqueId(name);
    const button = h(
      "button",
      { type: "button", "data-tos": name, "aria-describedby": noteId },
      text,
    );
    const noted = h("span", { id: noteId, class: "tos-note" });
    const element = h("span", { class: "tos-control" }, button, noted);
    const control = { name, element, button, input: null, note: noted, request: null, id: -1 };
    button.addEventListener("click", () => {
      this.submit(control, command, {});
    });
    return control;
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
      { type: "submit", "aria-label": `${verb}: ${label}`, "aria-describedby": noteId },
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
    // JupyterLab reads single keys as commands of the notebook.
    element.addEventListener("keydown", (event) => {
      event.stopPropagation();
    });
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

  private fillCombiners(names: string[], current: string): void {
    const select = this.controls.find(({ name }) => name === "combiner")?.input;
    if (!select) return;
    const all = names.includes(current) ? names : [current, ...names];
    if (select.dataset.names !== all.join()) {
      select.dataset.names = all.join();
      delete select.dataset.force;
      select.replaceChildren(...all.map((name) => h("option", { value: name }, name)));
    }
    this.fill("combiner", current);
  }
}
