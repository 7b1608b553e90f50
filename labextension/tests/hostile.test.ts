/** Names and texts come from users and their data: whatever they hold, it is shown as text. */

import { expect, it, vi } from "vitest";

import { RunView } from "../src/view/run-view";
import { browser, buffers, entered, FakeChannel, parts, worker } from "./fakes";
import { pack } from "../demo/kernel";

const legends: unknown[] = [];
vi.mock("uplot", () => ({
  default: class {
    width = 0;
    setData = vi.fn();
    setSize = vi.fn();
    destroy = vi.fn();
    constructor(options: { series: { label: unknown }[] }) {
      legends.push(...options.series.map(({ label }) => label));
    }
  },
}));

const NASTY = `"><img src=x onerror="window.hit = 1"><script>window.hit = 2</script>&amp; %1`;

it("a view shows hostile names of metrics, rules, programs and workers as they are", () => {
  const page = browser();
  const view = new RunView(new FakeChannel());
  document.body.append(view.element);
  view.start();
  const error = { message: NASTY, where: NASTY, frames: [NASTY], rest: NASTY };
  const named = { combiner: NASTY, combiners: [NASTY], sync: NASTY, codec: NASTY, master: NASTY };
  const run = { ...named, program: NASTY, chaos: [NASTY], waits: [NASTY], reason: NASTY, error };
  const made = parts([2], run);
  const state = {
    ...made,
    series: [...made.series, { name: NASTY, split: "validation" as const, length: 1 }],
    workers: [worker(0, { executor: NASTY, host: NASTY, note: NASTY })],
    marks: [{ time: 1, worker: 0, kind: "lost" as const, text: NASTY }],
    commands: [entered({ command: "swap combiner", detail: NASTY, changes: { [NASTY]: NASTY } })],
    log: [{ time: 1, level: "warning" as const, text: NASTY }],
  };
  const points = buffers([2]);
  points.splice(1, 0, pack([[1, 1, 1, 1]], 4));
  view.message({ type: "snapshot", seq: 1, state }, points);
  page.frame();
  expect(view.element.querySelectorAll("img, script, [onerror]")).toHaveLength(0);
  expect("hit" in window).toBe(false);
  const shown = view.element.textContent;
  // Header, waits, chaos, reason, error, option, note, figure, worker, log.
  expect(shown.split(NASTY).length - 1).toBeGreaterThan(15);
  const figure = view.element.querySelector('[data-tos="metric-chart"] figcaption');
  expect(figure?.textContent).toBe(NASTY);
  view.destroy();
  vi.unstubAllGlobals();
});
