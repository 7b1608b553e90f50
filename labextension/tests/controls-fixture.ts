/** The controls on a page, what they send, and what they show. */

import { afterEach, beforeEach, expect, vi } from "vitest";

import { Controls } from "../src/view/controls";
import { type CommandEntry, type RunInfo, RunModel } from "../src/view/model";
import { buffers, parts } from "./fakes";

export class Fixture {
  readonly sent: [string, Record<string, unknown>][] = [];
  readonly model = new RunModel();
  time = 0;
  readonly controls = new Controls(
    (...command) => this.sent.push(command),
    () => this.time,
    () => undefined,
  );
  readonly element = document.createElement("div");

  constructor() {
    const { buttons, feedback, drawer } = this.controls;
    this.element.append(buttons, feedback.element, drawer.element);
  }

  show(run: Partial<RunInfo> = {}, commands: CommandEntry[] = []): void {
    const state = { ...parts([], run), commands };
    this.model.apply({ type: "snapshot", seq: 1, state }, buffers([]));
    this.controls.draw(this.model);
  }

  // eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- as querySelector's
  find<E extends HTMLElement = HTMLElement>(selector: string): E {
    const element = this.element.querySelector<E>(selector);
    if (!element) throw new Error(`Expected ${selector}.`);
    return element;
  }

  /** Put a value in a field, as a person would. */
  type(name: string, value: string): void {
    const input = this.find<HTMLInputElement>(`[data-tos="${name}"] :is(input, select)`);
    input.value = value;
    input.dispatchEvent(new Event("input"));
  }

  apply(): void {
    this.find('[data-tos="apply"]').click();
  }

  /** What became of what was asked. */
  get told(): string {
    return this.find(".tos-told").textContent;
  }

  noteOf(name: string): string {
    return this.find(`[data-tos="${name}"] .tos-note`).textContent;
  }
}

/** What a button shows of the texts that it has room for. */
export function seen(button: HTMLElement): string {
  return button.querySelector('[aria-hidden="false"]')?.textContent ?? "";
}

/** A page of its own for each test; `take` is given it. */
export function eachOnItsOwnPage(take: (fixture: Fixture) => void): void {
  let fixture: Fixture;
  beforeEach(() => {
    vi.useFakeTimers();
    localStorage.clear();
    fixture = new Fixture();
    document.body.replaceChildren(fixture.element);
    take(fixture);
  });
  afterEach(() => {
    fixture.controls.destroy();
    // The page's own, of what is focused and stored, take no time.
    vi.advanceTimersByTime(0);
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });
}
