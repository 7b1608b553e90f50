import { nullTranslator } from "@jupyterlab/translation";
import { describe, expect, it } from "vitest";

import { inWords, outline, sparkline, updateSparkline } from "../../src/lab/sparkline";

const trans = nullTranslator.load("tos_notebook");

describe("a sparkline", () => {
  it("runs from the left to the right, high values on top", () => {
    expect(outline([2, 1, 0])).toBe("M2.0 2.0h0L50.0 10.0L98.0 18.0");
  });

  it("of a loss that fell far shows each halving alike", () => {
    expect(outline([8, 4, 2])).toBe("M2.0 2.0h0L50.0 10.0L98.0 18.0");
  });

  it("has gaps where no value is known", () => {
    expect(outline([null, 1, NaN, 3, 2])).toBe("M26.0 18.0h0M74.0 2.0h0L98.0 10.0");
  });

  it("of equal values, or of one, lies in the middle", () => {
    expect(outline([5, 5])).toBe("M2.0 10.0h0L98.0 10.0");
    expect(outline([5])).toBe("M2.0 10.0h0");
    expect(outline([])).toBe("");
  });

  it("is a picture with a name, and is updated in place", () => {
    const svg = sparkline([2, 1], "falls");
    const path = svg.querySelector("path");
    expect([svg.getAttribute("role"), svg.getAttribute("aria-label")]).toEqual(["img", "falls"]);
    updateSparkline(svg, [1, 2], "rises");
    expect(svg.getAttribute("aria-label")).toBe("rises");
    expect(svg.querySelector("path")).toBe(path);
    expect(path?.getAttribute("d")).toBe(outline([1, 2]));
  });
});

it("a curve in words leaves out what is not known", () => {
  expect(inWords([null, 2, 0.25, 0.5, null], trans)).toBe("Loss: began at 2, now 0.5, lowest 0.25");
  expect(inWords([null], trans)).toBe("No loss yet");
});
