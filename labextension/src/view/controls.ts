/** Buttons and fields that steer the run, each with a note on what became of it. */

import { Stop, Toggle } from "./buttons";
import { Chaos } from "./chaos";
import { h, setAttribute, setText, uniqueId } from "./dom";
import { Field } from "./field";
import { hasEnded, type RunModel } from "./model";
import {
  type Action,
  actionsOf,
  type Answer,
  type Argument,
  type Ask,
  CHAOS,
  inForce,
  isOffered,
  lacksRate,
  note,
  type Request,
  STOP,
  TOGGLE,
  unavailable,
} from "./requests";
import { t } from "./text";
import { word } from "./words";

export type Send = (command: string, arguments_: Record<string, unknown>) => number;

interface Control {
  ask: Ask;
  element: HTMLElement;
  button: HTMLButtonElement;
  note: HTMLElement;
  /** null where it has none, or more than one. */
  field: Field | null;
  request: Request | null;
  id: number;
}

/** Commands that have controls of their own here; all others get forms. */
const OWN = [TOGGLE, STOP, CHAOS].flatMap(({ commands }) => commands);

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
  /** Filled once it is known which commands the run obeys; they change with its strategy. */
  private readonly forms = h("div", { class: "tos-forms" });
  /** All that were ever shown, by command and argument: a strategy may take some away. */
  private readonly made = new Map<string, Control>();
  private shown = "";
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
    const toggle = control(TOGGLE, this.toggle.button, noteAt(toggling));
    const stop = control(STOP, this.stop.button, noteAt(stopping));
    this.chaos = new Chaos((arguments_) => {
      this.submit(chaos, "chaos", arguments_);
    });
    const chaos = control(CHAOS, this.chaos.slow, this.chaos.note, this.chaos.element);
    this.controls = [toggle, stop, chaos];
    this.fieldset.append(
      h("div", { class: "tos-buttons" }, toggle.button, stop.button),
      // Below the buttons, which whatever it says leaves where they are.
      h("p", { class: "tos-notes", role: "status" }, toggle.note, stop.note),
      this.forms,
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
    this.makeForms(actionsOf(run));
    for (const { ask, button, element, field } of this.controls) {
      element.hidden = !isOffered(run, ask);
      const reason = unavailable(run, ask);
      // Not `disabled`: a button that was just pressed would lose the keyboard's focus.
      setAttribute(button, "aria-disabled", String(reason !== ""));
      setAttribute(button, "title", reason);
      field?.draw(inForce(run));
      if (field) field.input.disabled = lacksRate(run, ask);
    }
    this.stop.draw(
      t("Stop run %1?", run.number),
      !this.fieldset.disabled && run.state !== "stopping",
    );
    this.chaos.draw(model, unavailable(run, CHAOS));
    this.drawNotes();
  }

  /** Also called as time passes: an answer that is late says so. */
  drawNotes(): void {
    const commands = this.model?.commands ?? [];
    const run = this.model?.run;
    for (const control of this.controls) {
      const asks = control.ask === STOP && this.asking;
      const text = asks
        ? t("Click again to stop the run. It keeps its weights, and cannot continue.")
        : note(control.ask, control.request, commands, this.now());
      const rateless = run && lacksRate(run, control.ask);
      setText(control.note, text === "" && rateless ? t("is not a variable of the program") : text);
    }
  }

  /** Show a form for each of these; those that are there stay, with what was typed and asked. */
  private makeForms(actions: readonly Action[]): void {
    const wanted = actions
      .filter(({ name }) => !OWN.includes(name))
      .flatMap((action) => {
        const { arguments: fields } = action;
        const none: (Argument | undefined)[] = [undefined];
        return (fields.length > 0 ? fields : none).map((one) => ({ action, one }));
      });
    const names = wanted.map(({ action, one }) => `${action.name}: ${one?.name ?? ""}`);
    if (names.join() === this.shown) return;
    this.shown = names.join();
    wanted.forEach(({ action, one }, i) => {
      if (this.made.has(names[i])) return;
      const form = this.form(action, one);
      this.made.set(names[i], form);
      this.controls.push(form);
    });
    const forms = names.map((name) => this.made.get(name)?.element);
    for (const { element } of this.made.values()) if (!forms.includes(element)) element.remove();
    // One that has the keyboard's focus would lose it if it were moved.
    forms.forEach((element, i) => {
      const there = this.forms.children[i] as Element | undefined;
      if (element && element !== there) this.forms.insertBefore(element, there ?? null);
    });
  }

  /** A form for one argument of a command; a button if it has none. */
  private form(action: Action, argument?: Argument): Control {
    const name = (argument ?? action).name.replaceAll(/[_ ]/g, "-");
    const [inputId, noteId] = [uniqueId(name), uniqueId(name)];
    const field = argument ? new Field(argument, inputId) : null;
    const [verb, label] = [word(action.verb), argument ? word(argument.label) : ""];
    const spoken = label ? t("%1: %2", verb, label) : verb;
    const button = h(
      "button",
      { type: "submit", "aria-label": spoken, "aria-describedby": noteId },
      verb,
    );
    const noted = noteAt(noteId);
    const element = h(
      "form",
      { class: "tos-control", "data-tos": name },
      h("label", { for: inputId }, label),
      h("span", { class: "tos-pair" }, ...(field ? [field.input] : []), button),
      noted,
    );
    const ask = {
      commands: [action.name],
      setting: argument?.optional ? argument.name : undefined,
    };
    const made = { ...control(ask, button, noted, element), field };
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(made, action.name, field?.arguments ?? {});
    });
    return made;
  }

  private submit(control: Control, command: string, arguments_: Record<string, unknown>): void {
    const run = this.model?.run;
    if (!run || unavailable(run, control.ask) !== "") return;
    if (control.request?.answer === null) return;
    const before = this.model?.commands.at(-1)?.time ?? -1;
    control.request = { sent: this.now(), before, answer: null };
    control.id = this.send(command, arguments_);
    control.field?.settle();
    this.drawNotes();
  }
}

function control(
  ask: Ask,
  button: HTMLButtonElement,
  note: HTMLElement,
  element: HTMLElement = button,
): Control {
  return { ask, element, button, note, field: null, request: null, id: -1 };
}

function noteAt(id: string): HTMLElement {
  return h("span", { id, class: "tos-note" });
}
