/** What a view shows of what has not come yet. */

import { describe, expect, it, vi } from "vitest";

import { buffers, parts } from "./fakes";
import { eachWithAView, textOf, type ViewFixture } from "./view-fixture";

vi.mock("uplot", () => import("./fake-uplot"));

let page: ViewFixture["page"];
let models: ViewFixture["models"];
let root: ViewFixture["root"];
eachWithAView((fixture) => ({ page, models, root } = fixture));

const text = (selector: string): string => textOf(root, selector);

describe("a view", () => {
  it("keeps the place of what is evaluated later, if there will be evaluations", () => {
    const state = parts([2, 1]);
    state.totals.metrics = { accuracy: 0.5 };
    const show = (seq: number): void => {
      models.stream.emit({ type: "snapshot", seq, state }, buffers([2, 1]));
      page.frame();
    };
    show(1);
    expect(text(".tos-facts")).toMatch(/^loss 1 /);
    state.run.validates = true;
    show(2);
    expect(text(".tos-facts")).toMatch(/^val accuracy – val loss – loss 1 /);
    const facts = [...root.querySelectorAll(".tos-fact")];
    state.totals.validation = { accuracy: 0.875, loss: 0.4 };
    show(3);
    expect(text(".tos-facts")).toMatch(/^val accuracy 0.875 val loss 0.4 loss 1 /);
    expect([...root.querySelectorAll(".tos-fact")]).toEqual(facts);
  });

  it("says what comes into the log before there is anything", () => {
    models.stream.emit({ type: "snapshot", seq: 1, state: parts([1]) }, buffers([1]));
    page.frame();
    expect(text('[data-tos="log"]')).toBe(
      "Nothing yet: commands, warnings and messages come here.",
    );
    expect(text('[data-tab="log"]')).toBe("Log");
  });
});
