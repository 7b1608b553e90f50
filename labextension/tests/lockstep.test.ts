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

describe("a view", () => {
  it("shows of steps made together who waits, and nothing that does not apply", () => {
    const state = parts([2, 1], {
      ...{ strategy: "allreduce (of gradients)", lockstep: true, combiner: null, sync: "bsp" },
    });
    state.workers = [0.75, null].map((waiting, i) => worker(i, { waiting }));
    show(state);
    expect(text(".tos-about")).toBe("Keras model · allreduce (of gradients) · fp32 · local[2]");
    expect(text(".tos-facts")).not.toContain("staleness");
    const lanes = root.querySelector('[data-tos="lanes"]');
    expect(lanes?.textContent).toContain("wait for others, or a pause");
    expect(lanes?.textContent).not.toContain("coloured by staleness");
    expect(root.querySelector<HTMLElement>('[data-tos="theory"]')?.hidden).toBe(true);
    const shown = (row: Element): string[] =>
      [...row.querySelectorAll<HTMLElement>("th, td")]
        .filter(({ hidden }) => !hidden)
        .map(({ textContent }) => textContent);
    const rows = [...root.querySelectorAll('[data-tos="workers"] tr')].map(shown);
    expect(rows[0]).toContain("Waits");
    expect(rows[0]).not.toContain("Staleness");
    expect(rows.slice(1).map((row) => row[rows[0].indexOf("Waits")])).toEqual(["75 %", "–"]);
  });

  it("says of other runs how stale they are, and of older kernels what they tell", () => {
    show(parts([2, 1]));
    expect(text(".tos-about")).toBe("Keras model · dynsgd · asp · fp32 · local[2]");
    expect(text(".tos-facts")).toContain("mean staleness");
    const heads = [...root.querySelectorAll<HTMLElement>('[data-tos="workers"] thead th')];
    const shown = heads.filter(({ hidden }) => !hidden).map(({ textContent }) => textContent);
    expect(shown).toContain("Staleness");
    expect(shown).not.toContain("Waits");
  });
});
