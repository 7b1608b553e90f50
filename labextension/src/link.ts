/** The two channels to the kernel: a stream to read, a control channel to write and be answered. */

import type { Answer } from "./requests";

/** What we use of a widget's model; anywidget's and ipywidgets' both have it. */
export interface WidgetModel {
  get(name: string): unknown;
  on(event: string, callback: (...arguments_: never[]) => void): void;
  off(event: string, callback: (...arguments_: never[]) => void): void;
  send(content: unknown, callbacks?: unknown, buffers?: unknown): void;
  widget_manager?: { get_model(id: string): Promise<WidgetModel> };
}

const REFERENCE = "IPY_MODEL_";
/** Milliseconds until an unanswered hello is said again; doubles, as each one costs a snapshot. */
const PATIENCE = 5000;
const MAX_PATIENCE = 60_000;

export class Link {
  private readonly view = Math.random().toString(36).slice(2, 12);
  private control: WidgetModel | null = null;
  private closed = false;
  private lastId = 0;
  /** When to say hello again; null while nothing is missing. */
  private again: number | null = null;
  private patience = PATIENCE;

  constructor(
    private readonly stream: WidgetModel,
    private readonly answered: (id: number, answer: Answer) => void,
    private readonly now: () => number,
  ) {}

  /** Find the control channel and ask for a snapshot. */
  async open(): Promise<void> {
    const reference = this.stream.get("control");
    const id = typeof reference === "string" ? reference.replace(REFERENCE, "") : "";
    const control = await this.stream.widget_manager?.get_model(id);
    if (!control) throw new Error(`Expected the model of the controls, got none for "${id}".`);
    // The cell may have been cleared in the meantime.
    if (this.closed) return;
    this.control = control;
    control.on("msg:custom", this.onAnswer);
    this.ask();
  }

  /** Ask for a snapshot, unless one is on its way. */
  ask(): void {
    if (this.again !== null && this.now() < this.again) return;
    this.again = this.now() + this.patience;
    this.patience = Math.min(MAX_PATIENCE, 2 * this.patience);
    this.control?.send({ type: "hello", view: this.view });
  }

  /** Call as time passes: a hello may get lost. */
  tick(): void {
    if (this.control !== null && this.again !== null) this.ask();
  }

  /** A snapshot came. */
  served(): void {
    this.again = null;
    this.patience = PATIENCE;
  }

  /** Send a command; its number comes back with the answer. */
  command(command: string, arguments_: Record<string, unknown>): number {
    this.lastId += 1;
    const id = this.lastId;
    this.control?.send({ type: "command", id, command, arguments: arguments_ });
    return id;
  }

  close(): void {
    this.closed = true;
    this.control?.off("msg:custom", this.onAnswer);
    this.control = null;
  }

  private readonly onAnswer = (content: { type?: string; id?: number } & Partial<Answer>): void => {
    if (content.type !== "answer" || content.id === undefined) return;
    this.answered(content.id, { ok: content.ok === true, text: content.text ?? "" });
  };
}
