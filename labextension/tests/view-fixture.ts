/** A view on a page of its own for each test. */

import { afterEach, beforeEach, vi } from "vitest";

import view from "../src/widget";
import { browser, pair } from "./fakes";

export interface ViewFixture {
  page: ReturnType<typeof browser>;
  models: ReturnType<typeof pair>;
  root: HTMLElement;
  destroy: () => void;
}

/** Render a view before each test, and hand it to `take`. The test file mocks uPlot. */
export function eachWithAView(take: (fixture: ViewFixture) => void): void {
  let destroy: () => void;
  beforeEach(async () => {
    vi.useFakeTimers();
    const page = browser();
    const models = pair();
    const el = document.body.appendChild(document.createElement("div"));
    destroy = view.render({ model: models.stream, el });
    const root = el.querySelector<HTMLElement>(".tos-run") ?? el;
    take({ page, models, root, destroy });
    await vi.advanceTimersByTimeAsync(0);
  });
  afterEach(() => {
    destroy();
    document.body.replaceChildren();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
}

export function textOf(root: HTMLElement, selector: string): string {
  return root.querySelector(selector)?.textContent ?? "";
}
