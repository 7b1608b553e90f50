/** Stands in for uPlot, which jsdom cannot draw: `vi.mock("uplot", () => import("./fake-uplot"))`. */

import { vi } from "vitest";

interface Options {
  series: { label?: unknown; points?: { show: () => boolean } }[];
  scales: Record<"x" | "y", { distr: number; range: () => [number, number] }>;
  axes: { values: (plot: unknown, splits: number[]) => string[] }[];
  hooks: Record<"setCursor" | "setSelect", ((plot: FakePlot) => void)[]>;
}

/** Every plot that was made and not destroyed, by when it was made. */
export const plots = new Set<FakePlot>();

/** A plot of 100 pixels, on which nothing is drawn. */
export default class FakePlot {
  static pxRatio = 1;
  width = 0;
  height = 0;
  cursor = { left: -10 };
  select = { left: 0, width: 0 };
  bbox = { left: 0, top: 0, width: 100, height: 100 };
  over = document.createElement("div");
  setData = vi.fn();
  setSize = vi.fn();
  setSelect = vi.fn();
  setCursor = vi.fn(({ left }: { left: number }) => {
    this.cursor.left = left;
  });
  destroy = vi.fn(() => {
    plots.delete(this);
    this.over.remove();
  });

  constructor(
    readonly options: Options,
    _: unknown,
    target: HTMLElement,
  ) {
    target.append(this.over);
    plots.add(this);
  }

  get range(): [number, number] {
    return this.options.scales.x.range();
  }

  posToVal(left: number): number {
    const [low, high] = this.range;
    return low + (left / 100) * (high - low);
  }

  valToPos(value: number): number {
    const [low, high] = this.range;
    return (100 * (value - low)) / (high - low);
  }

  /** The pointer is moved to a pixel. */
  move(left: number): void {
    this.over.parentElement?.dispatchEvent(new Event("pointerenter"));
    this.cursor.left = left;
    for (const hook of this.options.hooks.setCursor) hook(this);
  }

  leave(): void {
    this.over.parentElement?.dispatchEvent(new Event("pointerleave"));
  }

  /** The pointer is dragged from one pixel to another. */
  drag(from: number, to: number): void {
    this.select = { left: from, width: to - from };
    for (const hook of this.options.hooks.setSelect) hook(this);
  }
}
