/** Names and texts come from users and their data: whatever they hold, it is shown as text. */

import { afterEach, expect, it, vi } from "vitest";

import { RunView } from "../src/view/run-view";
import { browser, buffers, entered, FakeChannel, parts, worker } from "./fakes";
import { actions, pack } from "../demo/kernel";

vi.mock("uplot", () => import("./fake-uplot"));

const NASTY = `"><img src=x onerror="window.hit = 1"><script>window.hit = 2</script>&amp; %1`;
const LONG = "n".repeat(10_000);

/** Everything that a view shows of a run, each text of it the one given. */
function shown(text: string): RunView {
  const view = new RunView(new FakeChannel());
  document.body.append(view.element);
  view.start();
  const error = { message: text, where: text, frames: [text], rest: text };
  const argument = {
    name: "x",
    label: text,
    kind: "str",
    choices: [text],
    optional: true,
  } as const;
  const unknown = { name: text, verb: text, arguments: [argument] };
  const named = { combiner: text, sync: text, codec: text, master: text };
  const run = {
    ...named,
    actions: [...actions, unknown],
    program: text,
    chaos: [text],
    waits: [text],
    reason: text,
    error,
  };
  const made = parts([2], run);
  const state = {
    ...made,
    totals: { ...made.totals, validation: { [text]: 0.5 } },
    series: [...made.series, { name: text, split: "validation" as const, length: 1 }],
    workers: [worker(0, { executor: text, host: text, note: text })],
    marks: [{ time: 1, worker: 0, kind: "lost" as const, text }],
    commands: [entered({ command: "swap combiner", detail: text, changes: { [text]: text } })],
    log: [{ time: 1, level: "warning" as const, text }],
  };
  const points = buffers([2]);
  points.splice(1, 0, pack([[1, 1, 1, 1]], 4));
  view.message({ type: "snapshot", seq: 1, state }, points);
  return view;
}

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

it("a view shows hostile names of metrics, rules, programs and workers as they are", () => {
  const page = browser();
  const view = shown(NASTY);
  page.frame();
  expect(view.element.querySelectorAll("img, script, [onerror]")).toHaveLength(0);
  expect("hit" in window).toBe(false);
  const text = view.element.textContent;
  // Reason, waits, chaos, error, option, note, figure, settings, log.
  expect(text.split(NASTY).length - 1).toBeGreaterThan(12);
  const figure = view.element.querySelector('[data-tos="metric-chart"] .tos-chart-name');
  expect(figure?.textContent).toBe(NASTY);
  view.destroy();
});

it("where there is no room for a long name, its tooltip has all of it", () => {
  const page = browser();
  const view = shown(LONG);
  page.frame();
  const cut = [...view.element.querySelectorAll<HTMLElement>(".tos-facts, [data-tos='workers']")]
    .flatMap((part) => [...part.querySelectorAll<HTMLElement>("[title]:not(tr)")])
    .filter(({ title }) => title.endsWith(LONG));
  // The validation, and a worker's executor and host.
  expect(cut.map(({ tagName }) => tagName)).toEqual(["SPAN", "TH", "TD"]);
  for (const { textContent } of cut) {
    expect(textContent).toContain("…");
    expect(textContent.length).toBeLessThanOrEqual(40);
  }
  view.destroy();
});
