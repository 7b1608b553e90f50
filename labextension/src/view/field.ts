/** The field in which a person types or chooses one argument of a command. */

import { h, setAttribute } from "./dom";
import { number } from "./format";
import type { Argument } from "./requests";
import { t } from "./text";
import { word } from "./words";

export class Field {
  readonly input: HTMLInputElement | HTMLSelectElement;
  /** What a person has typed and not sent yet stays. */
  private edited = false;
  private inForce: string | null = null;
  private choices = "";

  /** `typed` is called when a person has changed it. */
  constructor(
    private readonly argument: Argument,
    id: string,
    private readonly typed: () => void,
  ) {
    this.input = make(argument, id);
    this.input.addEventListener("input", () => {
      this.edited = true;
      typed();
    });
  }

  /** Whether it holds something else than what is in force. */
  get changed(): boolean {
    return this.edited && this.input.value !== (this.inForce ?? "");
  }

  /** As the argument of a command. */
  get arguments(): Record<string, unknown> {
    const { name, kind } = this.argument;
    const { value } = this.input;
    return { [name]: kind === "str" ? value : Number(value) };
  }

  /** A sentence about what it holds; empty if there is none. */
  get about(): string {
    return this.argument.about?.[this.input.value] ?? "";
  }

  /** What is wrong with what was typed; empty if nothing is. */
  get problem(): string {
    const { kind } = this.argument;
    const { value } = this.input;
    const amount = Number(value);
    const fits = value.trim() !== "" && amount > 0;
    if (kind === "str") return value.trim() === "" ? t("expected a name") : "";
    if (kind === "float") return fits ? "" : t("expected a number above 0");
    return fits && Number.isInteger(amount) ? "" : t("expected a whole number above 0");
  }

  /** Put something in, as if a person had typed it. */
  type(value: string): void {
    this.input.value = value;
    this.edited = true;
    this.typed();
  }

  /** Show what is in force again, whatever was typed. */
  settle(): void {
    this.edited = false;
    this.input.value = this.inForce ?? "";
  }

  /** Show what is in force, but never over what a person is typing. */
  draw(run: Partial<Record<string, unknown>>): void {
    const value = this.written(run[this.argument.name]);
    if (this.argument.choices.length > 0) this.offer(value);
    if (value === this.inForce) return;
    this.inForce = value;
    if (!this.edited && this.input !== document.activeElement) this.input.value = value;
  }

  /** Offer the choices, with what is in force among them. */
  private offer(current: string): void {
    const { choices } = this.argument;
    const all = choices.includes(current) ? choices : [current, ...choices];
    if (this.choices === all.join()) return;
    const before = this.edited ? this.input.value : current;
    this.choices = all.join();
    this.input.replaceChildren(...this.options(all));
    this.input.value = before;
  }

  /** In groups, where there are some; what is in none comes first. */
  private options(names: readonly string[]): HTMLElement[] {
    const { about, groups = {} } = this.argument;
    const option = (name: string): HTMLElement =>
      h("option", { value: name, title: about?.[name] }, name);
    const grouped = Object.entries(groups);
    const known = new Set(grouped.flatMap(([, members]) => members));
    const group = ([label, members]: [string, readonly string[]]): HTMLElement =>
      h("optgroup", { label: word(label) }, ...members.map(option));
    return [...names.filter((name) => !known.has(name)).map(option), ...grouped.map(group)];
  }

  private written(value: unknown): string {
    if (typeof value === "string") return value;
    if (typeof value !== "number") return "";
    return this.argument.kind === "float" ? number(value).replaceAll(",", "") : String(value);
  }
}

function make({ kind, choices }: Argument, id: string): HTMLInputElement | HTMLSelectElement {
  if (choices.length > 0) return h("select", { id });
  if (kind === "str") return h("input", { id, type: "text" });
  const input = h("input", { id, type: "text", inputmode: kind === "int" ? "numeric" : "decimal" });
  setAttribute(input, "autocomplete", "off");
  return input;
}
