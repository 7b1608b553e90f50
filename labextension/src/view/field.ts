/** The field in which a person types or chooses one argument of a command. */

import { h } from "./dom";
import { number } from "./format";
import type { Argument } from "./requests";

export class Field {
  readonly input: HTMLInputElement | HTMLSelectElement;
  /** What a person has typed and not sent yet stays. */
  private edited = false;
  private inForce: string | null = null;
  private choices = "";

  constructor(
    private readonly argument: Argument,
    id: string,
  ) {
    this.input = make(argument, id);
    this.input.addEventListener("input", () => {
      this.edited = true;
    });
  }

  /** As the argument of a command. */
  get arguments(): Record<string, unknown> {
    const { name, kind } = this.argument;
    const { value } = this.input;
    return { [name]: kind === "str" ? value : Number(value) };
  }

  /** It was sent: what is in force may be shown again. */
  settle(): void {
    this.edited = false;
  }

  /** Show what is in force, but never over what a person is typing. */
  draw(run: Partial<Record<string, unknown>>): void {
    const value = this.written(run[this.argument.name]);
    if (this.argument.choices.length > 0) this.offer(value);
    if (this.edited || this.input === document.activeElement || value === this.inForce) return;
    this.inForce = this.input.value = value;
  }

  /** Offer the choices, with what is in force among them. */
  private offer(current: string): void {
    const { choices } = this.argument;
    const all = choices.includes(current) ? choices : [current, ...choices];
    if (this.choices === all.join()) return;
    this.choices = all.join();
    this.inForce = null;
    this.input.replaceChildren(...all.map((name) => h("option", { value: name }, name)));
  }

  private written(value: unknown): string {
    if (typeof value === "string") return value;
    if (typeof value !== "number") return "";
    return this.argument.kind === "float" ? number(value).replaceAll(",", "") : String(value);
  }
}

function make({ kind, choices }: Argument, id: string): HTMLInputElement | HTMLSelectElement {
  if (choices.length > 0) return h("select", { id });
  const required = { id, required: true };
  if (kind === "str") return h("input", { type: "text", ...required });
  const limits = kind === "int" ? { min: 1, step: 1, size: 6 } : { min: 0, step: "any", size: 8 };
  return h("input", { type: "number", ...limits, ...required });
}
