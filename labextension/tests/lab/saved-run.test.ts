import { Widget } from "@lumino/widgets";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { RUN_MIME } from "../../src/lab/protocol";
import { RunOutput } from "../../src/lab/run-output";
import { isFinal, snapshotOf } from "../../src/lab/saved";
import { browser, parts } from "../fakes";
import { plots } from "../fake-uplot";
import { rendermime, Saved, settings } from "./output-fixture";
import { settle } from "./session-fakes";

vi.mock("@jupyterlab/rendermime", async () => ({
  MimeModel: (await import("./output-fixture")).FakeMimeModel,
}));
vi.mock("uplot", () => import("../fake-uplot"));

/** What a kernel writes of a run into a notebook. */
function saved(state: string): Record<string, unknown> {
  const { run, totals, workers, marks, commands, log } = parts([2], { state });
  const points = ["1,2", "100,200", "0.5,1", "2,"];
  const series = [{ name: "loss", split: "training", points }];
  return { run, totals, series, workers, marks, commands, log };
}

let output: RunOutput;
let page: ReturnType<typeof browser>;

async function open(content: unknown): Promise<void> {
  const data = { [RUN_MIME]: { run: "r3", number: 3, saved: content }, "text/html": "a picture" };
  await output.renderModel({ data, metadata: {}, trusted: false } as never);
  await settle();
  page.frame();
}

beforeEach(() => {
  vi.useFakeTimers();
  page = browser();
  Saved.all.length = 0;
  Saved.wait = Promise.resolve();
  output = new RunOutput(() => null, rendermime as never, settings as never);
  Widget.attach(output, document.body);
});

afterEach(() => {
  output.dispose();
  expect(plots.size).toBe(0);
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

describe("a notebook that is opened without a kernel", () => {
  it("has the charts of a run that ended, and nothing to steer", async () => {
    await open(saved("finished"));
    const view = output.node.querySelector<HTMLElement>(".tos-run");
    expect(view?.dataset.state).toBe("finished");
    expect(view?.querySelectorAll('[data-tos="loss-chart"]')).toHaveLength(1);
    expect(plots.size).toBe(1);
    expect(Saved.all).toEqual([]);
  });

  it.each(["running", "lost"])("says that a run was lost that was %s", async (state) => {
    await open(saved(state));
    const view = output.node.querySelector<HTMLElement>(".tos-run");
    expect(view?.dataset.state).toBe("lost");
    expect(view?.textContent).toContain("this is what was saved of it");
  });

  it.each([
    ["nothing", undefined],
    ["a text", "x"],
    ["no series", { run: {}, totals: {} }],
    [
      "columns of two lengths",
      { ...saved("finished"), series: [{ points: ["1", "1,2", "1", "1"] }] },
    ],
    ["no run", { ...saved("finished"), run: undefined }],
    ["no log", { ...saved("finished"), log: 4 }],
  ])("shows the picture where %s was saved", async (_, content) => {
    await open(content);
    expect(output.node.textContent).toBe("text/html");
    expect(snapshotOf(content)).toBeNull();
  });
});

it("what is final is never asked for again", () => {
  expect([saved("finished"), saved("failed"), saved("running"), undefined, 4].map(isFinal)).toEqual(
    [...[true, true, false, false, false]],
  );
});
