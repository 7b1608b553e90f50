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
  );

  show(run: Partial<RunInfo> = {}, commands: CommandEntry[] = []): void {
    const state = { ...parts([], run), commands };
    this.model.apply({ type: "snapshot", seq: 1, state }, buffers([]));
    this.controls.draw(this.model);
  }

  find(selector: string): HTMLElement {
    const element = this.controls.element.querySelector<HTMLElement>(selector);
    if (!element) throw new Error(`Expected ${selector}.`);
    return element;
  }

  noteOf(name: string): string {
    const places = { toggle: ".tos-notes > :first-child", stop: ".tos-notes > :last-child" };
    const place = name in places ? places[name as keyof typeof places] : null;
    return this.find(place ?? `[data-tos="${name}"] .tos-note`).textContent;
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
    fixture = new Fixture();
    document.body.replaceChildren(fixture.controls.element);
    take(fixture);
  });
  afterEach(() => {
    fixture.controls.destroy();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });
}
