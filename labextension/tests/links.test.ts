import { describe, expect, it, vi } from "vitest";

import { busiestLink, contentOf, MOST_LISTED } from "../src/view/links";
import type { LinkRate, Links } from "../src/view/workers";
import { buffers, parts } from "./fakes";
import { eachWithAView, textOf, type ViewFixture } from "./view-fixture";

vi.mock("uplot", () => import("./fake-uplot"));

let page: ViewFixture["page"];
let models: ViewFixture["models"];
let root: ViewFixture["root"];
eachWithAView((fixture) => ({ page, models, root } = fixture));

const RING: Links = {
  rates: [
    [1, 0, 3_000_000],
    [0, 1, 1_500_000],
    [0, -1, 900],
  ],
  more: 0,
};

function show(links: Links | null | undefined, lockstep = true, seq = 1): void {
  const state = parts([2, 1], { lockstep });
  state.totals.links = links;
  models.stream.emit({ type: "snapshot", seq, state }, buffers([2, 1]));
  page.frame();
}

const panel = (): HTMLElement | null => root.querySelector('[data-tos="links"]');
const table = (): string[][] =>
  [...(panel()?.querySelectorAll("tr") ?? [])].map((row) =>
    [...row.children].map(({ textContent }) => textContent),
  );

/** Each of so many workers sends to each other one. */
function mesh(n: number): Links {
  const rates: LinkRate[] = [];
  for (let a = 0; a < n; a++)
    for (let b = 0; b < n; b++) if (a !== b) rates.push([a, b, 1000 * (n - a)]);
  return { rates, more: 0 };
}

describe("bytes per link", () => {
  it("are a matrix of who sends and who receives, the driver last", () => {
    show(RING);
    expect(table()).toEqual([
      ["From \\ to", "0", "1", "driver"],
      ["0", "", "1.5 MB/s", "900 B/s"],
      ["1", "3 MB/s", "", ""],
    ]);
    const cells = [...(panel()?.querySelectorAll<HTMLElement>("td") ?? [])];
    expect(cells.slice(0, 4).map(({ style }) => style.getPropertyValue("--tos-share"))).toEqual([
      ...["0%", "50%", "0%", "100%"],
    ]);
    const heads = [...(panel()?.querySelectorAll("th") ?? [])].map(({ scope }) => scope);
    expect(heads).toEqual(["col", "col", "col", "col", "row", "row"]);
  });

  it("can be scrolled by keyboard, and say which is the busiest", () => {
    show(RING);
    expect(panel()?.getAttribute("aria-label")).toBe("Bytes per link");
    expect(panel()?.querySelector(".tos-scroll")?.getAttribute("tabindex")).toBe("0");
    expect(textOf(root, ".tos-busiest")).toBe("Busiest link: 1 → 0, 3 MB/s.");
  });

  it("of many workers are a list of the busiest, and how many more there are", () => {
    show({ ...mesh(10), more: 5 });
    const rows = table();
    expect(rows[0]).toEqual(["Link", "Bytes per second"]);
    expect(rows).toHaveLength(1 + MOST_LISTED);
    expect(rows[1]).toEqual(["0 → 1", "10 kB/s"]);
    expect(textOf(root, '[data-tos="links"] .tos-caption')).toContain(
      `${90 - MOST_LISTED + 5} more links carry less.`,
    );
  });

  it("keep their cells while only rates change, so that nothing jumps or loses the focus", () => {
    show(RING);
    const before = panel()?.querySelector("td");
    show({ ...RING, rates: [[0, 1, 8_000_000], ...RING.rates.filter(([a]) => a !== 0)] }, true, 2);
    show({ ...RING, rates: [[0, 1, 8_000_000], RING.rates[0], RING.rates[2]] }, true, 3);
    const after = panel()?.querySelector("td");
    expect(table()[1]).toEqual(["0", "", "8 MB/s", "900 B/s"]);
    show({ ...RING, rates: [[0, 1, 9_000_000], RING.rates[0], RING.rates[2]] }, true, 4);
    expect(panel()?.querySelector("td")).toBe(after);
    expect(before).not.toBe(after);
  });

  it("are hidden where nothing is known of them, and where workers do not make steps together", () => {
    for (const links of [null, undefined, { rates: [], more: 0 }]) {
      show(links);
      expect(panel()?.hidden).toBe(true);
    }
    show(RING, false);
    expect(panel()?.hidden).toBe(true);
  });

  it("have no share where nothing is sent, and no busiest link where there is none", () => {
    expect(contentOf({ rates: [[0, 1, null]], more: 0 }).rows[0].cells[1]).toEqual({
      ...{ text: "–/s", share: 0 },
    });
    expect(busiestLink(null)).toBe("");
    expect(busiestLink({ rates: [[0, -1, 12_300_000]], more: 3 })).toBe("0 → driver, 12.3 MB/s");
  });
});

describe("a view", () => {
  it("shows a lost worker and a swap that waits, until the run ends", () => {
    const told = { lost: ["Partition 1 lost its worker."], pending: ["Swap strategy waits."] };
    const state = parts([1], { ...told, waits: ["It waits for partition 1."] });
    models.stream.emit({ type: "snapshot", seq: 1, state }, buffers([1]));
    page.frame();
    expect(textOf(root, '[data-tos="waits"]')).toBe("✕ Partition 1 lost its worker. (2 more)");
    expect(root.querySelector<HTMLElement>('[data-tos="waits"]')?.title).toBe(
      "✕ Partition 1 lost its worker.\n◔ It waits for partition 1.\n… Swap strategy waits.",
    );
    for (const text of [...told.lost, ...told.pending])
      expect(textOf(root, '[data-tos="status"]')).toContain(text);
    const ended = parts([1], { ...told, state: "finished" });
    models.stream.emit({ type: "snapshot", seq: 2, state: ended }, buffers([1]));
    page.frame();
    expect(root.querySelector<HTMLElement>('[data-tos="waits"]')?.hidden).toBe(true);
  });
});
