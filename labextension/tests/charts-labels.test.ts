import { expect, it } from "vitest";

import { heights, labels } from "../src/view/charts-labels";
import type { Flag } from "../src/view/charts-marks";

const flag = (x: number, label: string): Flag => ({ x, time: x, sign: "⚑", label, text: label });
const width = (text: string): number => 6 * text.length;
const texts = (flags: Flag[], to = 400): [number, string][] =>
  labels(flags, { from: 0, to }, width).map(({ x, text }) => [x, text]);

it("flags of one moment have one label that tells of each", () => {
  expect(texts([flag(50, "EASGD"), flag(51, "LR 0.05")])).toEqual([[53, "⚑ EASGD, LR 0.05"]]);
});

it("a label stands to the left of its line where there is no room to its right", () => {
  expect(texts([flag(390, "LR 0.05")])).toEqual([[334, "⚑ LR 0.05"]]);
});

it("a label that has no room is shorter, and no number in it is cut", () => {
  const both = [flag(60, "EASGD"), flag(61, "LR 0.05")];
  expect(texts(both, 130)).toEqual([[63, "⚑ EASGD +1"]]);
  expect(texts(both, 80)).toEqual([[63, "⚑"]]);
});

it("no label covers another", () => {
  const found = texts([flag(50, "EASGD"), flag(90, "LR 0.05"), flag(130, "every 20")]);
  for (let i = 1; i < found.length; i++) {
    expect(found[i][0]).toBeGreaterThanOrEqual(found[i - 1][0] + width(found[i - 1][1]));
  }
});

it("a label knows how high a curve is behind it, also between two points", () => {
  const curve = { x: [0, 10, 20, 30], values: [0, 10, null, 5] };
  expect(heights(curve, 2, 4)).toEqual([2, 4]);
  expect(heights(curve, 8, 12)).toEqual([8, 10]);
  expect(heights(curve, 12, 25)).toBeNull();
  expect(heights(curve, 25, 40)).toEqual([5, 5]);
  expect(heights(curve, 31, 40)).toBeNull();
});
