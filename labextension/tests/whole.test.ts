import { expect, it, vi } from "vitest";

import { buffers, parts } from "./fakes";
import { plots } from "./fake-uplot";
import { eachWithAView, type ViewFixture } from "./view-fixture";

vi.mock("uplot", () => import("./fake-uplot"));

let page: ViewFixture["page"];
let models: ViewFixture["models"];
let root: ViewFixture["root"];
eachWithAView((fixture) => ({ page, models, root } = fixture));

let seq = 0;
function draw(): void {
  seq += 1;
  models.stream.emit({ type: "snapshot", seq, state: parts([2, 1]) }, buffers([2, 1]));
  for (let i = 0; i < 3; i++) page.frame();
}

/** What the plot was asked to be, in pixels. */
const height = (): number =>
  (plots.values().next().value?.setSize.mock.lastCall as { height: number }[])[0].height;

it("on the whole screen the charts take the room that is left, and give it back", () => {
  draw();
  draw();
  const before = height();
  const frame = root.querySelector(".tos-frame") as HTMLElement;
  vi.spyOn(frame, "offsetHeight", "get").mockImplementation(() => 300 + height());
  vi.spyOn(root, "clientHeight", "get").mockReturnValue(1000);
  Object.assign(document, { fullscreenElement: root });
  draw();
  expect(300 + height()).toBeLessThanOrEqual(1000);
  expect(300 + height()).toBeGreaterThan(960);
  Object.assign(document, { fullscreenElement: null });
  draw();
  expect(height()).toBe(before);
});
