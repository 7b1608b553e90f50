import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { pack } from "../demo/kernel";
import type { Channel, Listener } from "../src/view/channel";
import { RunModel } from "../src/view/model";
import { Charts } from "../src/view/charts";
import { csv, svg } from "../src/view/charts-save";
import { type Choice, MOST } from "../src/view/others";
import { readTheme } from "../src/view/theme";
import { browser, buffers, entered, parts } from "./fakes";
import { type default as FakePlot, plots } from "./fake-uplot";

vi.mock("uplot", () => import("./fake-uplot"));

class Told implements Channel {
  hellos = 0;
  listener: Listener | null = null;
  closed = 0;

  constructor(private readonly reachable = true) {}

  open(listener: Listener): Promise<void> {
    this.listener = listener;
    return this.reachable ? Promise.resolve() : Promise.reject(new Error("gone"));
  }
  hello(): void {
    this.hellos += 1;
  }
  command(): void {
    throw new Error("It is not steered from here.");
  }
  close(): void {
    this.closed += 1;
  }
  /** The kernel tells of it: so many points, two seconds apart. */
  tell(losses: number[], name = "first"): void {
    const state = parts(losses, { id: "a", name });
    const rows = losses.map((loss, i) => [2 * i, 100 * i, i, loss]);
    state.series.push({ name: "loss", split: "validation", length: losses.length });
    this.listener?.message({ type: "snapshot", seq: 1, state }, [
      ...[pack(rows, 4), pack(rows, 4), pack([], 6)],
    ]);
  }
}

let channel: Told;
let offered: Choice[];
let charts: Charts;
let model: RunModel;

function choice(id: string, name = id): Choice {
  return { id, name, detail: "finished", open: () => channel };
}

function find<T extends HTMLElement = HTMLElement>(selector: string): T[] {
  return [...charts.element.querySelectorAll<T>(selector)];
}

const boxes = (): HTMLInputElement[] => find<HTMLInputElement>(".tos-others input");
const legend = (): HTMLElement[] => find(".tos-besides .tos-curve");
const plot = (): FakePlot => [...plots][0];
const labels = (): unknown[] =>
  plot()
    .options.series.slice(1)
    .map(({ label }) => label);

function open(): void {
  find('[data-tos="others"]')[0].click();
}

function make(choices: ((run: string) => readonly Choice[]) | null): void {
  charts = new Charts(
    readTheme(document.createElement("div")),
    () => {
      charts.draw(model);
    },
    choices,
  );
  document.body.append(charts.element);
  charts.draw(model);
}

beforeEach(() => {
  browser();
  channel = new Told();
  offered = [choice("a", "first"), choice("b", "second")];
  model = new RunModel();
  model.apply({ type: "snapshot", seq: 1, state: parts([3, 2, 1]) }, buffers([3, 2, 1]));
});

afterEach(() => {
  charts.destroy();
  expect(plots.size).toBe(0);
  document.body.replaceChildren();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

describe("other runs", () => {
  it("are not offered where none are known", () => {
    make(null);
    expect(find('[data-tos="others"]')).toEqual([]);
  });

  it("can be chosen by keys: the button opens a list that has the focus, Escape returns", () => {
    const asked = vi.fn(() => offered);
    make(asked);
    expect(asked).not.toHaveBeenCalled();
    open();
    expect(asked).toHaveBeenCalledExactlyOnceWith("r");
    expect(document.activeElement).toBe(boxes()[0]);
    expect(boxes().map(({ labels }) => labels?.[0].textContent)).toEqual([
      ...["firstfinished", "secondfinished"],
    ]);
    boxes()[0].dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    expect(document.activeElement).toBe(find('[data-tos="others"]')[0]);
  });

  it("close their list at Escape, wherever the focus is, and at a press beside it", () => {
    make(() => offered);
    const [list] = find(".tos-others");
    const press = (on: Element, key?: string): void => {
      const options = { bubbles: true };
      on.dispatchEvent(
        key ? new KeyboardEvent("keydown", { key, ...options }) : new Event("pointerdown", options),
      );
    };
    open();
    press(find(".tos-plot")[0], "ArrowLeft");
    press(boxes()[0]);
    expect(list.hidden).toBe(false);
    press(find(".tos-plot")[0], "Escape");
    expect(list.hidden).toBe(true);
    open();
    press(find('[data-tos="others"]')[0]);
    expect(list.hidden).toBe(false);
    press(find(".tos-plot")[0]);
    expect(list.hidden).toBe(true);
  });

  it("that come and go do so in the open list, which keeps the focus", () => {
    make(() => offered);
    open();
    boxes()[1].focus();
    const [before] = boxes();
    charts.tick();
    expect(boxes()[0]).toBe(before);
    offered = [choice("c", "third"), choice("b", "second")];
    charts.tick();
    expect(boxes().map(({ value }) => value)).toEqual(["c", "b"]);
    expect(document.activeElement).toBe(boxes()[1]);
  });

  it("that are not there are said to be none", () => {
    make(() => []);
    open();
    expect(find(".tos-others")[0].textContent).toContain("No other run to draw yet.");
  });

  it("are drawn behind one's own, named in a line of their own, over an axis for all", async () => {
    make(() => offered);
    open();
    boxes()[0].click();
    await Promise.resolve();
    expect(channel.hellos).toBe(1);
    channel.tell([5, 4, 3, 2, 1]);
    expect(labels()).toEqual(["first, training", "first, validation", "raw", "training"]);
    expect(plot().range).toEqual([0, 8]);
    expect(legend().map(({ textContent, title }) => [textContent, title])).toEqual([
      ["first2.078 · 1", "Show or hide first"],
    ]);
    expect(find('[data-tos="others"]')[0].textContent).toBe("+1 run");
  });

  it("hide with all their curves by a click on their name, and the axis is one's own again", () => {
    make(() => offered);
    open();
    boxes()[0].click();
    channel.tell([5, 4, 3, 2, 1]);
    legend()[0].click();
    expect(legend()[0].getAttribute("aria-pressed")).toBe("false");
    expect(labels()).toEqual(["raw", "training"]);
    expect(plot().range).toEqual([0, 2]);
    // One's own training is another one's.
    expect(find('.tos-curve[data-split="training"]')[0].getAttribute("aria-pressed")).toBe("true");
  });

  it("have gaps at their own pauses", () => {
    make(() => offered);
    open();
    boxes()[0].click();
    const state = parts([4, 3], { id: "a" });
    state.commands = [
      entered({ time: 0.2, command: "pause" }),
      entered({ time: 0.8, command: "unpause" }),
    ];
    channel.listener?.message({ type: "snapshot", seq: 1, state }, buffers([4, 3]));
    charts.draw(model);
    const data = plot().setData.mock.lastCall?.[0] as unknown[][];
    const [, other, , own] = data;
    expect(other).toContain(null);
    expect(own).not.toContain(null);
  });

  it("stay as they were drawn when they go away, and can still be left out", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    channel = new Told(false);
    make(() => offered);
    open();
    boxes()[0].click();
    channel.tell([5, 4]);
    await Promise.resolve();
    offered = [];
    open();
    open();
    expect(legend()).toHaveLength(1);
    expect(boxes()).toHaveLength(1);
    boxes()[0].click();
    expect(channel.closed).toBe(1);
    expect(legend()).toEqual([]);
    expect(labels()).toEqual(["raw", "training"]);
  });

  it("keep their color while others come and go, and are a few at most", () => {
    offered = Array.from({ length: MOST + 1 }, (_, i) => choice(`x${i}`));
    const channels: Told[] = [];
    const opening = (one: Choice): Choice => ({
      ...one,
      open: () => {
        channels.push(new Told());
        return channels[channels.length - 1];
      },
    });
    make(() => offered.map(opening));
    open();
    for (const box of boxes().slice(0, MOST)) box.click();
    expect(boxes().map(({ disabled }) => disabled)).toEqual([
      ...Array.from({ length: MOST }, () => false),
      true,
    ]);
    for (const one of channels) one.tell([2, 1]);
    boxes()[1].click();
    boxes()[MOST].click();
    channels[MOST].tell([2, 1]);
    expect(legend().map(({ dataset }) => dataset.place)).toEqual(["0", "2", "3", "1"]);
    charts.destroy();
    expect(channels.map(({ closed }) => closed)).toEqual(channels.map(() => 1));
  });

  it("that missed something ask for all of it again", async () => {
    make(() => offered);
    open();
    boxes()[0].click();
    await Promise.resolve();
    channel.tell([2]);
    channel.listener?.message({ type: "delta", seq: 3, state: {} }, []);
    expect(channel.hellos).toBe(2);
  });
});

it("a saved chart names other runs once", () => {
  make(() => []);
  const beside = { id: "a", name: "<first>", place: 1 };
  const one = { raw: false, x: [0, 1], values: [2, 1], beside };
  const drawn = [
    { ...one, label: "<first>, training", split: "training" as const },
    { ...one, label: "<first>, validation", split: "validation" as const },
  ];
  const overlay = { flags: [], bands: [] };
  const range = { x: [0, 1] as [number, number], y: [0, 2] as [number, number] };
  const sheet = {
    name: "loss",
    best: null,
    axis: "time" as const,
    log: false,
    overlay,
    drawn,
    ...range,
  };
  expect(csv(sheet)).toContain('"<first>, validation",1,1');
  const page = new DOMParser().parseFromString(svg(sheet), "image/svg+xml");
  const texts = [...page.querySelectorAll("text")].map(({ textContent }) => textContent);
  expect(texts.filter((text) => text === "<first>")).toHaveLength(1);
});
