import { afterEach, describe, expect, it } from "vitest";

import { RunModel } from "../src/view/model";
import { Next } from "../src/view/next";
import { parts } from "./fakes";

afterEach(() => {
  document.body.replaceChildren();
});

describe("lines of code", () => {
  it("are marked where the page has no clipboard, as without HTTPS", async () => {
    const made = parts();
    const model = new RunModel();
    const state = { ...made, run: { ...made.run, state: "finished" }, series: [], commands: [] };
    model.apply({ type: "snapshot", seq: 1, state }, []);
    const next = new Next(() => undefined);
    document.body.append(next.button, next.drawer.element);
    next.draw(model);
    expect(navigator.clipboard).toBeUndefined();
    const row = next.drawer.element.querySelector(".tos-next-row");
    row?.querySelector("button")?.click();
    await Promise.resolve();
    await Promise.resolve();
    expect(getSelection()?.toString()).toBe(row?.querySelector("code")?.textContent);
  });
});
