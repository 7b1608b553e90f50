/** What a view does where it has little room. */

import { beforeEach, describe, expect, it, vi } from "vitest";

import type { Parts } from "../src/view/model";
import { buffers, parts } from "./fakes";
import { eachWithAView, textOf, type ViewFixture } from "./view-fixture";

vi.mock("uplot", () => import("./fake-uplot"));

let page: ViewFixture["page"];
let models: ViewFixture["models"];
let root: ViewFixture["root"];
let seq: number;
eachWithAView((fixture) => ({ page, models, root } = fixture));

const text = (selector: string): string => textOf(root, selector);

function show(state: Parts): void {
  models.stream.emit({ type: "snapshot", seq: ++seq, state }, buffers([1]));
  page.frame();
}

beforeEach(() => {
  seq = 0;
});

describe("a view", () => {
  it("says in a shorter form how far its run is, before it leaves that out", () => {
    // As wide as its characters, and what does not fit is in the next line.
    let room = 0;
    const said = (): string =>
      [".tos-chaos-badge", ".tos-epoch"].map(text).filter(Boolean).join(" ");
    const below = vi
      .spyOn(HTMLElement.prototype, "offsetTop", "get")
      .mockImplementation(() => (said().length > room ? 43 : 7));
    const state = parts([1], { state: "paused", epoch: 35, epochs: 3000, chaos: ["slow"] });
    const saysIn = (width: number, eta: number | null = 1020): string => {
      room = width;
      state.totals.eta = eta;
      show(state);
      return said();
    };
    const whole = "⚠ chaos epoch 35 of 3000 · about 17 min 00 s left when unpaused";
    expect(saysIn(80)).toBe(whole);
    expect(saysIn(60)).toBe("⚠ chaos epoch 35 of 3000 · ~17 min left");
    expect(saysIn(36)).toBe("⚠ chaos epoch 35 of 3000 · ~17 min");
    expect(saysIn(20)).toBe("⚠ 35/3000 · ~17 min");
    // As much of the shortest as there is room for.
    expect(saysIn(10)).toBe("⚠ 35/3000 · ~17 min");
    expect(saysIn(10, null)).toBe("⚠ 35/3000");
    expect(saysIn(80)).toBe(whole);
    below.mockRestore();
  });

  it("brings the drawer back into the window after a new width, if a person is in it", () => {
    let width = 844;
    const wide = vi.spyOn(HTMLElement.prototype, "clientWidth", "get");
    wide.mockImplementation(() => width);
    const narrowed = (): void => {
      width -= 100;
      show(parts([1]));
    };
    narrowed();
    const drawer = root.querySelector<HTMLElement>(".tos-drawer");
    root.querySelector<HTMLElement>('[data-tos="steer"]')?.click();
    const brought = vi.spyOn(drawer ?? root, "scrollIntoView");
    show(parts([1]));
    expect(brought).not.toHaveBeenCalled();
    narrowed();
    expect(brought).toHaveBeenCalledExactlyOnceWith({ block: "nearest" });
    (document.activeElement as HTMLElement).blur();
    narrowed();
    expect(brought).toHaveBeenCalledTimes(1);
    wide.mockRestore();
  });
});
