import { describe, expect, it, vi } from "vitest";

import { ARMED, SETTLE } from "../src/view/buttons";
import { eachOnItsOwnPage, type Fixture, seen } from "./controls-fixture";

let on: Fixture;
eachOnItsOwnPage((fixture) => {
  on = fixture;
});

describe("pause and unpause", () => {
  it("are one button, whose box keeps its place and what it holds", () => {
    on.show();
    const button = on.find('[data-tos="pause"]');
    expect(seen(button)).toBe("‖ Pause");
    on.show({ state: "paused" });
    expect(on.find('[data-tos="unpause"]')).toBe(button);
    expect(seen(button)).toBe("▶ Unpause");
    expect(button.textContent).toContain("Pause");
    expect(button.parentElement).toBe(on.find('[data-tos="stop"]').parentElement);
  });

  it("take a click for the other one only after a while", () => {
    on.show({ state: "paused" });
    vi.advanceTimersByTime(SETTLE);
    on.find('[data-tos="unpause"]').click();
    on.controls.answer(1, { ok: true, text: "", when: "now" });
    on.show();
    on.find('[data-tos="pause"]').click();
    expect(on.sent).toEqual([["unpause", {}]]);
    vi.advanceTimersByTime(SETTLE);
    on.find('[data-tos="pause"]').click();
    expect(on.sent).toEqual([
      ["unpause", {}],
      ["pause", {}],
    ]);
  });
});

describe("a double click", () => {
  it("is one command, also where the kernel has answered and the state is as before", () => {
    on.show({ state: "paused" });
    vi.advanceTimersByTime(SETTLE);
    on.find('[data-tos="unpause"]').click();
    on.controls.answer(1, { ok: true, text: "", when: "now" });
    vi.advanceTimersByTime(SETTLE - 1);
    on.find('[data-tos="unpause"]').click();
    expect(on.sent).toEqual([["unpause", {}]]);
  });
});

describe("stop", () => {
  const stop = (): HTMLElement => on.find('[data-tos="stop"]');

  it("asks first, in the same box, and takes the second click", () => {
    on.show();
    expect(seen(stop())).toBe("■ Stop");
    stop().click();
    expect(seen(stop())).toBe("■ Stop it?");
    expect(on.told).toContain("Click again to stop for good");
    expect(on.sent).toEqual([]);
    vi.advanceTimersByTime(SETTLE);
    stop().click();
    expect(on.sent).toEqual([["stop", {}]]);
    expect(seen(stop())).toBe("■ Stop");
  });

  it("does not take a double click for two", () => {
    on.show();
    stop().click();
    vi.advanceTimersByTime(SETTLE - 1);
    stop().click();
    expect(on.sent).toEqual([]);
  });

  it("forgets the first click after a while, and at Escape", () => {
    on.show();
    stop().click();
    vi.advanceTimersByTime(ARMED);
    expect(seen(stop())).toBe("■ Stop");
    stop().click();
    vi.advanceTimersByTime(SETTLE);
    stop().dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
    stop().click();
    expect(on.sent).toEqual([]);
  });

  it("takes a key that is held down for one press", () => {
    on.show();
    const held = new KeyboardEvent("keydown", { key: "Enter", repeat: true, cancelable: true });
    expect(stop().dispatchEvent(held)).toBe(false);
    const pressed = new KeyboardEvent("keydown", { key: "Enter", cancelable: true });
    expect(stop().dispatchEvent(pressed)).toBe(true);
  });

  it("asks nothing of a run that ends", () => {
    on.show();
    stop().click();
    on.show({ state: "stopping" });
    expect(seen(stop())).toBe("■ Stop");
    stop().click();
    expect("armed" in stop().dataset).toBe(false);
  });
});
