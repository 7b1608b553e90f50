import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { RunView } from "../src/view/run-view";
import { browser, buffers, FakeChannel, parts } from "./fakes";

vi.mock("uplot", () => import("./fake-uplot"));

let page: ReturnType<typeof browser>;

beforeEach(() => {
  page = browser();
});

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

describe("a view whose kernel has gone", () => {
  it("says that its run is lost, foresees no end, and cannot be steered, until it is back", () => {
    const view = new RunView(new FakeChannel());
    const tell = (seq: number): void => {
      view.message({ type: "snapshot", seq, state: parts([1]) }, buffers([1]));
      page.frame();
    };
    document.body.append(view.element);
    tell(1);
    view.lose("It is gone.");
    view.freeze(null);
    page.frame();
    const find = (selector: string): string =>
      view.element.querySelector(selector)?.textContent ?? "";
    expect(view.element.dataset.state).toBe("lost");
    expect(find(".tos-state")).toBe("✕ lost");
    expect(find(".tos-epoch")).toMatch(/^epoch 1 of 4 · /);
    expect(find(".tos-told")).toBe("It is gone.");
    expect(view.element.querySelector("fieldset")?.disabled).toBe(true);
    const states = [...view.element.querySelectorAll("[data-tos='workers'] tbody tr")].map(
      ({ textContent }) => textContent,
    );
    expect(states).toHaveLength(2);
    for (const state of states) expect(state).toMatch(/✕ lost/);
    expect(view.snapshot()?.message.state.run.state).toBe("lost");
    tell(2);
    expect(find(".tos-state")).toBe("▶ running");
    expect(view.element.querySelector("fieldset")?.disabled).toBe(false);
    view.destroy();
  });

  it("cannot be steered until the kernel is back", () => {
    const channel = new FakeChannel();
    const frozen = new RunView(channel);
    frozen.message({ type: "snapshot", seq: 1, state: parts([1]) }, buffers([1]));
    document.body.append(frozen.element);
    page.frame();
    const controls = frozen.element.querySelector("fieldset");
    const notice = (): string => frozen.element.querySelector(".tos-told")?.textContent ?? "";
    expect([controls?.disabled, notice()]).toEqual([false, ""]);
    frozen.freeze("It is gone.");
    expect([controls?.disabled, notice()]).toEqual([true, "It is gone."]);
    frozen.freeze(null);
    expect([controls?.disabled, notice()]).toEqual([false, ""]);
    frozen.destroy();
  });
});
