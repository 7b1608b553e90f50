/** Stands in for uPlot, which jsdom cannot draw: `vi.mock("uplot", () => import("./fake-uplot"))`. */

import { vi } from "vitest";

interface Options {
  series: { label?: unknown }[];
}

/** What the legends say of every plot that was made; a test empties it before it looks. */
export const legends: unknown[] = [];

export default class FakePlot {
  width = 0;
  setData = vi.fn();
  setSize = vi.fn();
  destroy = vi.fn();

  constructor({ series }: Options) {
    legends.push(...series.map(({ label }) => label));
  }
}
