import { describe, expect, it, vi } from "vitest";

import type { Parts } from "../src/view/model";
import { buffers, parts, worker } from "./fakes";
import { eachWithAView, textOf, type ViewFixture } from "./view-fixture";

vi.mock("uplot", () => import("./fake-uplot"));

let page: ViewFixture["page"];
let models: ViewFixture["models"];
let root: ViewFixture["root"];
eachWithAView((fixture) => ({ page, models, root } = fixture));

function show(state: Parts): void {
  models.stream.emit({ type: "snapshot", seq: 1, state }, buffers([2, 1]));
  page.frame();
}

const text = (selector: string): string => textOf(root, selector);

/** Of the settings, without what has another place. */
const about = (): string =>
  [...root.querySelectorAll<HTMLTableRowElement>('[data-tos="settings"] tr')]
    .slice(0, 5)
    .map(({ cells }) => cells[1].textContent)
    .join(" · ");
const offered = (name: string): boolean =>
  root.querySelector<HTMLElement>(`[data-tab="${name}"]`)?.hidden === false;

describe("a view", () => {
  it("shows of steps made together who waits, and nothing that does not apply", () => {
    const state = parts([2, 1], {
      ...{ strategy: "allreduce (of gradients)", lockstep: true, combiner: null, sync: "bsp" },
    });
    state.workers = [0.75, null].map((waiting, i) =>
      worker(i, { computing: 0.15, exchanging: 0.1, waiting, sent: 2000 }),
    );
    show(state);
    expect(about()).toMatch(/^Keras model · allreduce \(of gradients\) · 10 · fp32/);
    expect(text(".tos-facts")).not.toContain("staleness");
    const lanes = root.querySelector('[data-tos="lanes"]');
    expect(lanes?.textContent).toContain("wait for others, or a pause");
    expect(lanes?.textContent).not.toContain("colored by staleness");
    expect(offered("theory")).toBe(false);
    const shown = (row: Element): string[] =>
      [...row.querySelectorAll<HTMLElement>("th, td")]
        .filter(({ hidden }) => !hidden)
        .map(({ textContent }) => textContent);
    const rows = [...root.querySelectorAll('[data-tos="workers"] tr')].map(shown);
    expect(rows[0]).toContain("Waits");
    // All workers are in the same epoch, which the header tells.
    for (const name of ["Staleness", "Epoch"]) expect(rows[0]).not.toContain(name);
    expect(rows.slice(1).map((row) => row[rows[0].indexOf("Waits")])).toEqual(["75 %", "–"]);
    const names = ["Computes", "Reduces", "Sent", "Received"];
    expect(names.map((name) => rows[1][rows[0].indexOf(name)])).toEqual([
      ...["15 %", "10 %", "2 kB", "6 B"],
    ]);
  });

  it("calls an exchange at the end of an epoch so, and not by its number", () => {
    show(parts([2, 1], { sync_interval: 1_000_000 }));
    expect(text('[data-tos="settings"]')).toContain("whole epoch");
  });

  it("shows nothing of staleness where no combiner counts it, and none of steps made together", () => {
    const state = parts([2, 1], { strategy: "tensorflow", combiner: null });
    state.workers = [worker(0, { staleness: null, staleness_mean: null, staleness_max: null })];
    show(state);
    expect(about()).toMatch(/^Keras model · tensorflow · 10 · fp32/);
    expect(text(".tos-facts")).not.toContain("staleness");
    const lanes = root.querySelector('[data-tos="lanes"]');
    expect(lanes?.textContent).not.toContain("colored by staleness");
    expect(lanes?.textContent).not.toContain("reduce");
    expect(lanes?.querySelector("canvas")?.getAttribute("aria-label")).not.toContain("staleness");
    const heads = [...root.querySelectorAll<HTMLElement>('[data-tos="workers"] th')];
    const shown = heads.filter(({ hidden }) => !hidden).map(({ textContent }) => textContent);
    expect(shown).toContain("Last sync");
    for (const name of ["Staleness", "Reduces", "Waits"]) expect(shown).not.toContain(name);
    expect(offered("theory")).toBe(false);
  });

  it("says what steps made together cost, and for whom the others wait", () => {
    const state = parts([2, 1], { lockstep: true });
    const slowest = { executor: "1", partition: 0, waiting: 0.01, others: 0.4 };
    const shares = { compute: 0.61, exchange: 0.14, wait: 0.25 };
    state.totals.costs = { ...shares, sent: 3_100_000, received: 3_100_000, slowest };
    show(state);
    const said =
      "Workers compute 61 % of their time, reduce 14 % and wait 25 %. " +
      "Each sends 3.1 MB/s and receives 3.1 MB/s. ";
    expect(text('[data-tos="costs"]')).toBe(
      `${said}Slowest: executor 1, partition 0. It waits 1 % of its time, the others 40 %.`,
    );
    state.totals.costs.slowest = null;
    show(state);
    expect(text('[data-tos="costs"]')).toBe(`${said}No worker is much slower than the others.`);
  });

  it("names the parts of a lane, each with what it looks like", () => {
    const keys = (): (string | undefined)[] =>
      [...root.querySelectorAll<HTMLElement>(".tos-key")]
        .filter(({ hidden }) => !hidden)
        .map(({ nextElementSibling }) => nextElementSibling?.textContent);
    show(parts([2, 1], { lockstep: true }));
    expect(keys()).toEqual(["compute", "reduce (exchange)", "wait for others, or a pause"]);
    show(parts([2, 1]));
    expect(keys()).toEqual(["exchange", "wait"]);
  });

  it("says of other runs how stale they are, and of older kernels what they tell", () => {
    show(parts([2, 1]));
    expect(about()).toBe("Keras model · dynsgd · asp · 10 · fp32");
    expect(text(".tos-facts")).toContain("staleness");
    expect(offered("theory")).toBe(true);
    const heads = [...root.querySelectorAll<HTMLElement>('[data-tos="workers"] thead th')];
    const shown = heads.filter(({ hidden }) => !hidden).map(({ textContent }) => textContent);
    expect(shown).toContain("Staleness");
    for (const name of ["Computes", "Reduces", "Waits"]) expect(shown).not.toContain(name);
    expect(root.querySelector<HTMLElement>('[data-tos="costs"]')?.hidden).toBe(true);
  });
});
