import { expect, it, vi } from "vitest";

import { buffers, entered, parts } from "./fakes";
import { eachWithAView, type ViewFixture } from "./view-fixture";

vi.mock("uplot", () => import("./fake-uplot"));

let page: ViewFixture["page"];
let models: ViewFixture["models"];
let root: ViewFixture["root"];
eachWithAView((fixture) => ({ page, models, root } = fixture));

it("offers the learning rate of before while the run diverges", () => {
  const commands = [entered({ command: "set", changes: { learning_rate: "1000" } })];
  const run = { learning_rate: 1000, rate_before: 0.1 };
  const state = { ...parts([1], run), commands };
  const warning = { kind: "diverging" as const, epoch: null, factor: 31_000 };
  const show = (seq: number, changed: object): void => {
    const totals = { ...state.totals, warning, ...changed };
    models.stream.emit({ type: "snapshot", seq, state: { ...state, totals } }, buffers([1]));
    page.frame();
  };
  show(1, {});
  const button = root.querySelector<HTMLElement>('[data-tos="rate-back"]');
  expect(button?.querySelector(".tos-word")?.textContent).toBe("Set back to 0.1");
  button?.click();
  expect(models.control.sent.at(-1)).toEqual({
    ...{ type: "command", id: 1, command: "set", arguments: { learning_rate: 0.1 } },
  });
  show(2, { warning: null });
  expect(button?.hidden).toBe(true);
});
