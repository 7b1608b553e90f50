/** Everything that can be changed while a run trains: what is in force, what will be, one button. */

import { h, setAttribute, setText, uniqueId } from "./dom";
import { Field } from "./field";
import type { CommandEntry, RunInfo } from "./model";
import {
  type Action,
  actionsOf,
  type Argument,
  type Ask,
  inForce,
  lacksRate,
  note,
  outcome,
  rateOf,
  type Request,
  unavailable,
} from "./requests";
import { t, tn } from "./text";
import { word } from "./words";

/** A command with its arguments, and the same in words. */
export interface Wanted {
  command: string;
  arguments: Record<string, unknown>;
  what: string;
}

/** Sends commands; each gets the request that its answer goes to. */
export type Submit = (wanted: readonly Wanted[]) => Request[];

/** A learning rate that is so many times the present one is asked about first. */
export const JUMP = 30;
/** Milliseconds in which a second click is no answer. */
const HASTE = 400;
const RATE = "learning_rate";

interface Row {
  action: Action;
  argument: Argument;
  ask: Ask;
  element: HTMLElement;
  field: Field;
  note: HTMLElement;
  /** What was asked of it last, until that is in force. */
  request: Request | null;
}

export class Steer {
  private readonly rows = new Map<string, Row>();
  private readonly list = h("div", { class: "tos-forms" });
  private readonly acts = h("div", { class: "tos-acts" });
  private readonly summary = h("p", { class: "tos-changes" });
  private readonly apply = h("button", { type: "submit", "data-tos": "apply" }, t("Apply"));
  private readonly undo = h("button", { "data-tos": "undo" }, t("Undo"));
  readonly element: HTMLElement;
  private shown = "";
  private run: RunInfo | null = null;
  private commands: readonly CommandEntry[] = [];
  /** The learning rate that was asked about, and when. */
  private doubt: { rate: string; at: number } | null = null;

  constructor(
    private readonly submit: Submit,
    private readonly now: () => number,
  ) {
    const form = h(
      "form",
      { novalidate: true },
      this.list,
      h("div", { class: "tos-apply" }, this.summary, this.undo, this.apply),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.undo.addEventListener("click", () => {
      for (const row of this.changed()) row.field.settle();
      this.doubt = null;
      this.redraw();
    });
    this.element = h("div", {}, form, this.acts);
  }

  draw(run: RunInfo, commands: readonly CommandEntry[], own: readonly string[]): void {
    this.run = run;
    this.commands = commands;
    this.make(actionsOf(run).filter(({ name }) => !own.includes(name)));
    for (const row of this.shownRows()) {
      row.field.draw(inForce(run));
      row.field.input.disabled = lacksRate(run, row.ask);
    }
    this.redraw();
  }

  /** Also called as time passes: an answer that is late says so. */
  redraw(): void {
    const { run, commands } = this;
    if (run === null) return;
    for (const row of this.shownRows()) {
      const became = row.request ? outcome(row.ask, row.request, commands) : null;
      if (became === "in force") {
        row.request = null;
        row.field.settle();
      }
      row.element.toggleAttribute("data-changed", row.field.changed);
      setText(row.note, this.noteOf(row, run));
      setAttribute(row.field.input, "aria-invalid", String(this.problem(row) !== ""));
    }
    const changed = this.changed();
    const what = changed.map(inWords).join(", ");
    const text = tn("%1 change: %2", "%1 changes: %2", changed.length, what);
    setText(this.summary, changed.length === 0 ? "" : text);
    setText(this.apply, this.doubted(changed) ? t("Apply anyway") : t("Apply"));
    const reason = this.reason(changed, run);
    setAttribute(this.apply, "aria-disabled", String(reason !== ""));
    setAttribute(this.apply, "title", reason);
    setAttribute(this.undo, "aria-disabled", String(changed.length === 0));
  }

  private noteOf(row: Row, run: RunInfo): string {
    const problem = this.problem(row);
    if (problem !== "") return problem;
    if (row.argument.name === RATE && this.doubt?.rate === row.field.input.value) {
      return t("%1 times the current rate", Math.round(this.jump(row)));
    }
    const text = note(row.ask, row.request, this.commands, this.now());
    if (text !== "") return text;
    if (lacksRate(run, row.ask)) return t("is not a variable of the program");
    return row.field.changed ? row.field.about : "";
  }

  private problem({ field }: Row): string {
    return field.changed ? field.problem : "";
  }

  /** Why nothing can be applied; empty if it can. */
  private reason(changed: readonly Row[], run: RunInfo): string {
    if (changed.length === 0) return t("nothing is changed");
    const wrong = changed.find((row) => this.problem(row) !== "");
    if (wrong) return t("%1: %2", word(wrong.argument.label), this.problem(wrong));
    return unavailable(run, changed[0].ask);
  }

  private changed(): Row[] {
    return this.shownRows().filter(({ field, request }) => field.changed && !this.waits(request));
  }

  private waits(request: Request | null): boolean {
    return request !== null && request.answer?.ok !== false && !this.settled(request);
  }

  private settled(request: Request): boolean {
    const row = this.shownRows().find((one) => one.request === request);
    return row !== undefined && outcome(row.ask, request, this.commands) !== null;
  }

  private jump({ field }: Row): number {
    const now = this.rate();
    return now > 0 ? Number(field.input.value) / now : 0;
  }

  /** The one in force; 0 if it is unknown. */
  private rate(): number {
    return (this.run && rateOf(this.run)) ?? 0;
  }

  private doubted(changed: readonly Row[]): boolean {
    const rate = changed.find(({ argument }) => argument.name === RATE);
    return rate !== undefined && this.doubt?.rate === rate.field.input.value;
  }

  /** Ask once about a learning rate that is hardly meant; returns whether to wait. */
  private doubts(changed: readonly Row[]): boolean {
    const rate = changed.find(({ argument }) => argument.name === RATE);
    if (!rate || this.jump(rate) <= JUMP) return false;
    if (this.doubt?.rate === rate.field.input.value) return this.now() - this.doubt.at < HASTE;
    this.doubt = { rate: rate.field.input.value, at: this.now() };
    return true;
  }

  private send(): void {
    const { run } = this;
    const changed = this.changed();
    if (run === null || this.reason(changed, run) !== "") return;
    if (!this.doubts(changed)) {
      const requests = this.submit(wanted(changed, this.shownRows()));
      const actions = [...new Set(changed.map(({ action }) => action.name))];
      for (const row of changed) row.request = requests[actions.indexOf(row.action.name)];
      this.doubt = null;
    }
    this.redraw();
  }

  private shownRows(): Row[] {
    return [...this.rows.values()].filter(({ element }) => element.parentElement === this.list);
  }

  /** Show a field for each argument; those that are there stay, with what was typed and asked. */
  private make(actions: readonly Action[]): void {
    const known = new Map<string, [Action, Argument]>();
    for (const action of actions) {
      for (const argument of action.arguments) {
        known.set(`${action.name}: ${argument.name}`, [action, argument]);
      }
    }
    const bare = actions.filter((action) => action.arguments.length === 0);
    const names = [...known.keys(), ...bare.map(({ name }) => name)].join();
    if (names === this.shown) return;
    this.shown = names;
    const elements = [...known].map(([name, [action, argument]]) => {
      const row = this.rows.get(name) ?? this.row(action, argument);
      this.rows.set(name, row);
      return row.element;
    });
    for (const child of [...this.list.children]) {
      if (!elements.includes(child as HTMLElement)) child.remove();
    }
    // One that has the keyboard's focus would lose it if it were moved.
    elements.forEach((element, i) => {
      const there = this.list.children[i] as Element | undefined;
      if (element !== there) this.list.insertBefore(element, there ?? null);
    });
    this.acts.replaceChildren(...bare.map((action) => this.act(action)));
  }

  private row(action: Action, argument: Argument): Row {
    const name = argument.name.replaceAll("_", "-");
    const [inputId, noteId] = [uniqueId(name), uniqueId(name)];
    const field = new Field(argument, inputId, () => {
      made.request = null;
      this.redraw();
    });
    setAttribute(field.input, "aria-describedby", noteId);
    const noted = h("span", { id: noteId, class: "tos-note" });
    const pair = h("span", { class: "tos-pair" }, field.input);
    if (argument.name === RATE) pair.append(...this.factors(field));
    const label = h("label", { for: inputId }, word(argument.label));
    const element = h("div", { class: "tos-control", "data-tos": name }, label, pair, noted);
    const setting = argument.optional ? argument.name : undefined;
    const ask = { commands: [action.name], setting };
    const made: Row = { action, argument, ask, element, field, note: noted, request: null };
    return made;
  }

  private factors(field: Field): HTMLElement[] {
    return (
      [
        ["×½", t("Half the learning rate"), 0.5],
        ["×2", t("Twice the learning rate"), 2],
      ] as const
    ).map(([text, label, factor]) => {
      const button = h("button", { "aria-label": label }, text);
      button.addEventListener("click", () => {
        // What is shown is rounded.
        const from = field.changed ? Number(field.input.value) : this.rate();
        const value = from * factor;
        if (value > 0 && !field.input.disabled) field.type(String(Number(value.toPrecision(4))));
      });
      return button;
    });
  }

  /** A button for a command that takes no argument. */
  private act({ name, verb }: Action): HTMLElement {
    const button = h("button", { "data-tos": name.replaceAll(" ", "-") }, word(verb));
    button.addEventListener("click", () => {
      this.submit([{ command: name, arguments: {}, what: word(name) }]);
    });
    return button;
  }
}

function inWords({ argument, field }: Row): string {
  return t("%1 %2", word(argument.label).toLowerCase(), field.input.value);
}

/** One command for each action: of settings what has changed, of others all that they take. */
function wanted(changed: readonly Row[], rows: readonly Row[]): Wanted[] {
  const actions = new Map(changed.map(({ action }) => [action.name, action]));
  return [...actions.values()].map((action) => {
    const own = (row: Row): boolean => row.action.name === action.name;
    const settings = action.arguments.every(({ optional }) => optional);
    const sent = (settings ? changed : rows).filter(own);
    return {
      command: action.name,
      arguments: Object.assign(
        {},
        ...sent.map(({ field }) => field.arguments),
      ) as Wanted["arguments"],
      what: changed.filter(own).map(inWords).join(", "),
    };
  });
}
