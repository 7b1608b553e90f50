import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { pack } from "../demo/kernel";
import { csv, png, type Sheet, svg } from "../src/view/charts-save";
import { Charts } from "../src/view/charts";
import { ChartState } from "../src/view/charts-state";
import { Toolbar } from "../src/view/charts-toolbar";
import { TOLD } from "../src/view/chart";
import { curves, DEFAULT_OPTIONS } from "../src/view/curves";
import { RunModel } from "../src/view/model";
import { readTheme } from "../src/view/theme";
import { browser, entered, parts } from "./fakes";
import { type default as FakePlot, plots } from "./fake-uplot";

vi.mock("uplot", () => import("./fake-uplot"));

const ROWS = [0, 1, 2, 3, 4].map((i) => [2 * i, 100 * i, i, 5 - i]);

let model: RunModel;
let charts: Charts;
const changed = vi.fn(() => {
  charts.draw(model);
});

/** A run of some metrics, each of training and validation, of five points. */
function run(names: string[]): RunModel {
  const made = parts();
  const series = names.flatMap((name) => [
    { name, split: "training" as const, length: 5 },
    { name, split: "validation" as const, length: 5 },
  ]);
  const commands = [entered({ time: 4, changes: { combiner: "easgd" }, detail: "easgd" })];
  const state = { ...made, series, commands };
  const found = new RunModel();
  found.apply({ type: "snapshot", seq: 1, state }, [
    ...series.map(() => pack(ROWS, 4)),
    pack([], 6),
  ]);
  return found;
}

function all(selector: string): HTMLElement[] {
  return [...charts.element.querySelectorAll<HTMLElement>(selector)];
}

function draw(names: string[]): void {
  model = run(names);
  charts.draw(model);
}

const drawn = (): FakePlot[] => [...plots];

beforeEach(() => {
  browser();
  charts = new Charts(readTheme(document.createElement("div")), changed);
  document.body.append(charts.element);
  draw(["loss", "accuracy"]);
});

afterEach(() => {
  charts.destroy();
  expect(plots.size).toBe(0);
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

describe("charts", () => {
  it("have no numbers at their axes before there is a point, and then new ones", () => {
    const labels = (): string[][] =>
      drawn().flatMap(({ options }) => options.axes.map(({ values }) => values(null, [0, 0.5])));
    expect(labels()[0]).toEqual(["0.0 s", "0.5 s"]);
    expect(labels()[1]).toEqual(["0", "0.5"]);
    model = new RunModel();
    const series = [{ name: "loss", split: "training" as const, length: 0 }];
    const none = { type: "snapshot" as const, seq: 1, state: { ...parts(), series } };
    model.apply(none, [pack([], 4), pack([], 6)]);
    charts.draw(model);
    expect(labels()).toEqual([["", ""], ["", ""]]); // prettier-ignore
    draw(["loss"]);
    expect(labels()[1]).toEqual(["0", "0.5"]);
    // What was switched off leaves the time that others have.
    for (const curve of all(".tos-curve")) curve.click();
    expect(labels()).toEqual([["0.0 s", "0.5 s"], ["", ""]]); // prettier-ignore
    for (const curve of all(".tos-curve")) curve.click();
  });

  it("begin with smoothing, say how much, and keep what was chosen for the next view", () => {
    expect(all(".tos-smoothing")[0].textContent).toBe("0.60");
    const [range] = all('[data-tos="smoothing"]') as HTMLInputElement[];
    range.value = "0.9";
    range.dispatchEvent(new Event("input"));
    expect(all(".tos-smoothing")[0].textContent).toBe("0.90");
    const next = new Toolbar(new ChartState(() => undefined));
    expect(next.element.querySelector("output")?.textContent).toBe("0.90");
    localStorage.clear();
  });

  it("draw the loss alone on a logarithmic scale", () => {
    const scale = (name: string): number | undefined => {
      const chart = all(".tos-plot").find((e) => e.ariaLabel?.startsWith(name));
      return drawn().find(({ over }) => chart?.contains(over))?.options.scales.y.distr;
    };
    const before = scale("loss");
    expect(before).toBe(scale("accuracy"));
    all('[data-tos="log-scale"]')[0].click();
    expect(scale("loss")).not.toBe(before);
    expect(scale("accuracy")).toBe(before);
  });

  it("show a chosen part of x all at once, until it is live again", () => {
    const [live] = all('[data-tos="live"]');
    expect(live.hidden).toBe(true);
    drawn()[0].drag(25, 50);
    expect(drawn().map(({ range }) => range)).toEqual([[2, 4], [2, 4]]); // prettier-ignore
    expect(live.hidden).toBe(false);
    live.click();
    expect(drawn().map(({ range }) => range)).toEqual([[0, 8], [0, 8]]); // prettier-ignore
    drawn()[1].drag(25, 50);
    all(".tos-plot")[1].dispatchEvent(new Event("dblclick"));
    expect(drawn()[0].range).toEqual([0, 8]);
    // A click is no drag.
    drawn()[0].drag(25, 26);
    expect(drawn()[0].range).toEqual([0, 8]);
  });

  it("have one cursor, whose values stand in the titles", () => {
    const values = (): (string | null)[] => all(".tos-curve-value").map((e) => e.textContent);
    expect([values()[1], values()[3]]).toEqual(["1", "1"]);
    drawn()[0].move(50);
    expect(drawn()[1].cursor.left).toBe(50);
    expect(values()[1]).toBe("3");
    expect(values()[3]).toBe("3");
    drawn()[0].leave();
    expect(values()[3]).toBe("1");
    expect(drawn()[1].cursor.left).toBe(-10);
  });

  it("lose the dots of a line that grew long, and keep the plot in which a person drags", () => {
    const dotted = (): unknown => plot.options.series.map(({ points }) => points?.show());
    const [plot] = drawn();
    expect(dotted()).toEqual([undefined, false, true, true]);
    const { points } = model.series[0];
    for (let i = 0; i < 9; i++) points.append(pack(ROWS, 4), 5);
    charts.draw(model);
    expect(drawn()[0]).toBe(plot);
    expect(dotted()).toEqual([undefined, false, false, true]);
  });

  it("hide a curve in all of them by its name", () => {
    const [, validation] = all(".tos-curve");
    expect(validation.getAttribute("aria-pressed")).toBe("true");
    validation.click();
    const pressed = all(".tos-curve").map((button) => button.getAttribute("aria-pressed"));
    expect(pressed).toEqual(["true", "false", "true", "false"]);
    expect(drawn()[0].options.series.map(({ label }) => label)).toEqual([
      ...[undefined, "raw", "training"],
    ]);
  });

  it("tell what was steered where the cursor is, and who knows more", () => {
    const tip = all(".tos-tip")[0];
    drawn()[0].move(20);
    expect(tip.hidden).toBe(true);
    drawn()[0].move(50);
    expect(tip.hidden).toBe(false);
    expect(tip.textContent).toBe("⚑ set: easgd");
    const told = vi.fn();
    charts.element.addEventListener(TOLD, (event) => {
      told((event as CustomEvent<number>).detail);
    });
    all(".tos-plot")[0].click();
    expect(told).toHaveBeenCalledExactlyOnceWith(4);
  });

  it("can be read by keys alone", () => {
    const [plot] = all(".tos-plot");
    const press = (key: string): void => {
      plot.dispatchEvent(new KeyboardEvent("keydown", { key }));
    };
    press("ArrowLeft");
    expect(charts.state.cursor).toBeCloseTo(7.84);
    press("+");
    expect(charts.state.zoom?.[0]).toBeCloseTo(3.92);
    press("0");
    expect(charts.state.zoom).toBeNull();
    press("Escape");
    expect(charts.state.cursor).toBeNull();
  });

  it("end a metric of training at the kernel's own value, live and reopened alike", () => {
    if (model.totals) model.totals.metrics = { accuracy: 0.75 };
    charts.draw(model);
    const values = all('[data-name="accuracy"] .tos-curve-value').map((each) => each.textContent);
    expect(values).toEqual(["0.75", "1"]);
  });

  it("show six at first, and say how many more there are", () => {
    const names = ["loss", ...Array.from({ length: 8 }, (_, i) => `metric ${i}`)];
    draw(names);
    expect(all("figure")).toHaveLength(6);
    const more = all(".tos-chip").find(({ textContent }) => textContent === "+3 charts");
    more?.click();
    expect(all("figure")).toHaveLength(9);
    more?.click();
    expect(all("figure")).toHaveLength(6);
  });

  it("grow to a whole row, and back", () => {
    const [button] = all(".tos-menu button");
    button.click();
    expect(all("figure")[0].classList).toContain("tos-large");
    const grid = all("figure")[0].parentElement;
    // The other one has no empty column beside it.
    expect(grid?.dataset.count).toBe("1");
    button.click();
    expect(grid?.dataset.count).toBe("2");
    expect(all("figure")[0].classList).not.toContain("tos-large");
  });

  it("draw those of the work only where they are seen", () => {
    expect(charts.work.children).toHaveLength(0);
    vi.spyOn(charts.work, "clientWidth", "get").mockReturnValue(400);
    charts.draw(model);
    const names = [...charts.work.querySelectorAll(".tos-chart-name")].map((e) => e.textContent);
    expect(names).toEqual(["samples per second", "learning rate"]);
  });
});

describe("a saved chart", () => {
  const sheet: Sheet = {
    ...{ name: 'a, "b" <i>', best: null, axis: "time", log: false, x: [0, 4], y: [0, 2] },
    overlay: { flags: [], bands: [{ from: 1, to: 2, kind: "pause" }] },
    drawn: [
      { label: "training", split: "training", raw: false, x: [0, 1, 4], values: [2, null, 1] },
    ],
  };

  it("is a row for each point", () => {
    expect(csv(sheet)).toBe('curve,seconds,"a, ""b"" <i>"\ntraining,0,2\ntraining,4,1\n');
  });

  it("says which of its curves is smoothed", () => {
    const rows = (smoothing: number): string[] => {
      const drawn = curves(model.series.slice(0, 2), { ...DEFAULT_OPTIONS, smoothing });
      const lines = csv({ ...sheet, drawn })
        .split("\n")
        .slice(1, -1);
      return [...new Set(lines.map((line) => line.replace(/,[^,]*,[^,]*$/, "")))];
    };
    expect(rows(0.6)).toEqual(["raw", '"training, smoothed"', "validation"]);
    expect(rows(0)).toEqual(["training", "validation"]);
  });

  it("is a PNG that names what it shows: one's own curves, then other runs once", async () => {
    const fillText = vi.fn();
    const nothing = vi.fn();
    const context = {
      ...{ fillText, fillRect: nothing, drawImage: nothing, scale: nothing, setLineDash: nothing },
      ...{ beginPath: nothing, moveTo: nothing, lineTo: nothing, stroke: nothing },
      measureText: (text: string) => ({ width: 6 * text.length }),
    };
    const { prototype } = HTMLCanvasElement;
    vi.spyOn(prototype, "getContext").mockReturnValue(context as never);
    vi.spyOn(prototype, "toBlob").mockImplementation((done) => {
      done(null);
    });
    const plot = document.createElement("canvas");
    plot.width = 300;
    const [own] = sheet.drawn;
    const beside = { id: "a", name: "first", place: 1 };
    const others = [own, { ...own, split: "validation" as const }].map((curve) => ({
      ...{ ...curve, beside, label: `first, ${curve.split}` },
    }));
    const all = [...others, { ...own, raw: true, label: "raw" }, own];
    const drawn = [...all, { ...own, split: "validation" as const, label: "validation" }];
    await png(plot, { ...sheet, name: "loss", drawn }, readTheme(document.createElement("div")));
    const written = fillText.mock.calls.map(([text, , y]) => [text, y] as [string, number]);
    expect(written).toEqual([
      ["loss", 15],
      ["training", 15],
      ["validation", 15],
      ["first", 30],
    ]);
    vi.restoreAllMocks();
  });

  it("is an SVG in which names are text", () => {
    const page = new DOMParser().parseFromString(svg(sheet), "image/svg+xml");
    expect(page.querySelector("parsererror, i")).toBeNull();
    expect(page.querySelector("text")?.textContent).toBe('a, "b" <i>');
    const paths = [...page.querySelectorAll("path")].map((path) => path.getAttribute("d") ?? "");
    // The gap parts the line.
    expect(paths.some((d) => /^M[\d. ]+M[\d. ]+$/.test(d))).toBe(true);
  });
});
