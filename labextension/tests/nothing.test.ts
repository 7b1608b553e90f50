import { expect, it, vi } from "vitest";

import type { Parts } from "../src/view/model";
import { buffers, parts } from "./fakes";
import { eachWithAView, type ViewFixture } from "./view-fixture";

vi.mock("uplot", () => import("./fake-uplot"));

let page: ViewFixture["page"];
let models: ViewFixture["models"];
let root: ViewFixture["root"];
eachWithAView((fixture) => ({ page, models, root } = fixture));

function snapshot(run: Partial<Parts["run"]>, seq: number): void {
  models.stream.emit({ type: "snapshot", seq, state: parts([], run) }, buffers([]));
  page.frame();
}

it("a run that failed before it trained shows what is known, and no empty chart", () => {
  const error = { message: "no", where: "executor 1", frames: ["line 12"], rest: "" };
  const nothing = () => root.querySelector<HTMLElement>('[data-tos="nothing"]');
  snapshot({ state: "starting" }, 1);
  expect(nothing()?.hidden).toBe(true);
  snapshot({ state: "failed", error }, 2);
  expect(nothing()?.hidden).toBe(false);
  expect(nothing()?.textContent).toContain("before its first milestone");
  expect(nothing()?.textContent).toContain("line 12");
  // Each fact once: the line above says where.
  const above = root.querySelector(".tos-brief-where");
  expect(above?.textContent).toBe("On executor 1.");
  expect(nothing()?.textContent).not.toContain("executor 1");
  expect(root.querySelector<HTMLElement>(".tos-main .tos-charts")?.hidden).toBe(true);
});

it("a queued run says in whole what it waits for, in the place of empty charts", () => {
  const wait =
    'Waiting: run "a" holds both slots. This run is queued, and starts when they are free.';
  const nothing = () => root.querySelector<HTMLElement>('[data-tos="nothing"]');
  snapshot({ state: "queued", waits: [wait] }, 1);
  expect(nothing()?.hidden).toBe(false);
  expect(nothing()?.textContent).toBe(wait);
  snapshot({ state: "running", waits: [] }, 2);
  expect(nothing()?.hidden).toBe(true);
});
