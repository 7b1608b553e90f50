import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { RunView } from "../src/view/run-view";
import { browser, buffers, FakeChannel, parts } from "./fakes";

/** What was drawn last: x, then each curve. */
let drawn: number[][] = [];

vi.mock("uplot", () => ({
  default: class {
    static pxRatio = 1;
    width = 0;
    over = document.createElement("div");
    setSize = vi.fn();
    destroy = vi.fn();
    constructor(_: unknown, data: number[][]) {
      drawn = data;
    }
    setData(data: number[][]): void {
      drawn = data;
    }
  },
}));

const LOSSES = Array.from({ length: 100 }, (_, i) => 100 - i);

let page: ReturnType<typeof browser>;
let channel: FakeChannel;
let view: RunView;

function open(settings?: ConstructorParameters<typeof RunView>[1]): void {
  channel = new FakeChannel();
  view = new RunView(channel, settings);
  document.body.append(view.element);
  view.start();
  view.message({ type: "snapshot", seq: 1, state: parts(LOSSES) }, buffers(LOSSES));
  page.frame();
}

function axis(): HTMLSelectElement {
  const found = view.element.querySelector<HTMLSelectElement>('[data-tos="axis"]');
  if (!found) throw new Error("Expected a choice of the axis.");
  return found;
}

function choose(value: string): void {
  axis().value = value;
  axis().dispatchEvent(new Event("input"));
  page.frame();
}

beforeEach(() => {
  vi.useFakeTimers();
  page = browser();
});

afterEach(() => {
  view.destroy();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("the axis", () => {
  it("is time unless the settings say otherwise", () => {
    open();
    expect(axis().value).toBe("time");
    expect(drawn[0].at(-1)).toBe(99);
    view.destroy();
    open({ axis: "samples" });
    expect(axis().value).toBe("samples");
    expect(drawn[0].at(-1)).toBe(9900);
  });

  it("follows the settings when they change", () => {
    open();
    view.settings({ axis: "epoch" });
    page.frame();
    expect(axis().value).toBe("epoch");
    expect(drawn[0].at(-1)).toBe(24.75);
  });

  it("that was chosen here stays when the settings change in something else", () => {
    open({ axis: "samples", points: 10 });
    choose("epoch");
    view.settings({ axis: "samples", points: 20 });
    page.frame();
    expect(axis().value).toBe("epoch");
    expect(drawn[0].at(-1)).toBeLessThan(25);
  });
});

describe("points", () => {
  it("are all drawn unless the settings say otherwise", () => {
    open();
    expect(drawn[1]).toHaveLength(100);
  });

  it("are thinned out to as many as the settings say, now and later", () => {
    open({ points: 30 });
    expect(drawn[1]).toHaveLength(25);
    view.settings({ points: 50 });
    page.frame();
    expect(drawn[1]).toHaveLength(50);
    choose("epoch");
    expect(drawn[1]).toHaveLength(50);
  });

  it("beyond the limit ask for no snapshot", async () => {
    open({ points: 10 });
    await vi.advanceTimersByTimeAsync(0);
    channel.hellos = 0;
    const { series } = parts([1]);
    for (let seq = 2; seq < 50; seq++) {
      view.message({ type: "delta", seq, state: { series } }, buffers([1]));
    }
    page.frame();
    expect(channel.hellos).toBe(0);
    expect(drawn[1].length).toBeLessThanOrEqual(10);
  });
});
