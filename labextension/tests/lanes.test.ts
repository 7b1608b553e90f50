import { describe, expect, it } from "vitest";

import { FakeKernel } from "../demo/kernel";
import { describe as explain } from "../src/view/lanes";
import {
  lanesSummary,
  layOut,
  stalenessBounds,
  stalenessStep,
  type View,
} from "../src/view/lanes-layout";
import { RunModel } from "../src/view/model";
import { buffers, parts, worker } from "./fakes";

function model(lanes: number[][], changes: Partial<ReturnType<typeof parts>> = {}): RunModel {
  const made = new RunModel();
  const state = { ...parts(), lanes: { length: lanes.length }, ...changes };
  made.apply({ type: "snapshot", seq: 1, state }, buffers([], lanes));
  return made;
}

describe("lanes", () => {
  it("part a milestone into exchange, wait and compute, in this order", () => {
    const layout = layOut(model([[0, 2, 0.5, 0.25, 0.25, 0]]), 1000);
    expect([layout.from, layout.to]).toEqual([1, 2]);
    const [exchange, wait, compute] = [layout.exchange, layout.wait, layout.compute[0]];
    expect([exchange[0], exchange[2]]).toEqual([0, 250]);
    expect([wait[0], wait[2]]).toEqual([250, 250]);
    expect(compute[0]).toBe(500);
    // Told apart by height, not by colour alone.
    expect(wait[3]).toBeLessThan(exchange[3]);
    expect(exchange[3]).toBeLessThan(compute[3]);
  });

  it("colour by staleness", () => {
    expect([0, 1, 4, 9, 100].map((staleness) => stalenessStep(staleness, 10))).toEqual([
      0, 1, 2, 4, 4,
    ]);
    expect(stalenessBounds(10)).toEqual([0, 2, 5, 7, 10]);
  });

  it("put one executor's workers together, and leave out those long done", () => {
    const workers = ["10", "2", "10", "2"].map((executor, i) =>
      worker(i, { executor, state: i === 3 ? "done" : "training" }),
    );
    const layout = layOut(model([[0, 1, 1, 0, 0, 0]], { workers }), 500);
    expect(layout.lanes.map(({ index }) => index)).toEqual([1, 0, 2]);
  });

  it("keep the place of workers that have not come yet, or have ended", () => {
    const heightOf = (...workers: ReturnType<typeof worker>[]): number =>
      layOut(model([], { workers }), 500).height;
    const both = heightOf(worker(0), worker(1));
    expect(both).toBeGreaterThan(0);
    expect([heightOf(), heightOf(worker(0)), heightOf(worker(0, { state: "done" }))]).toEqual([
      ...[both, both, both],
    ]);
  });

  it("mark retries and losses in their lane", () => {
    const mark = { time: 1.5, worker: 1, kind: "retry" as const, text: "" };
    const lanes = [[0, 2, 1, 0, 0, 0], [1, 2, 0.1, 0, 0, 0]]; // prettier-ignore
    const layout = layOut(model(lanes, { marks: [mark, { ...mark, time: 0.2 }] }), 1000);
    const { top, height } = layout.lanes[1];
    expect(layout.marks).toEqual([{ x: 500, y: top + height / 2, mark }]);
    expect(lanesSummary(model(lanes, { marks: [mark] }), layout)).toContain("1 retry and 0 losses");
  });

  it("explain the milestone under the pointer", () => {
    const made = model([[0, 1, 0.1, 0, 0, 0], [0, 2, 0.5, 0.25, 0.25, 3]]); // prettier-ignore
    const layout = layOut(made, 1000);
    expect(explain(made, layout, 900, 3, 1000)).toBe(
      "Executor 0, partition 0: exchange 0.3 s, wait 0.3 s, compute 0.5 s, staleness 3",
    );
    expect(explain(made, layout, 900, 9999, 1000)).toBe("");
  });

  it("say nothing of staleness where all make each step together", () => {
    const made = model([[0, 2, 0.5, 0.25, 0.25, 0]], { run: { ...parts().run, lockstep: true } });
    const layout = layOut(made, 1000);
    expect(explain(made, layout, 900, 3, 1000)).toBe(
      "Executor 0, partition 0: reduce 0.3 s, wait 0.3 s, compute 0.5 s",
    );
    expect(lanesSummary(made, layout)).toMatch(/executors; 0 retries and 0 losses so far\.$/);
  });

  it("show the latest milestones, so many seconds, or all that are known", () => {
    const made = model(Array.from({ length: 200 }, (_, i) => [0, i + 1, 1, 0, 0, 0]));
    const from = (seconds: number | null): number => layOut(made, 500, { seconds }).from;
    expect([from(null), from(60), from(Infinity)]).toEqual([170, 140, 0]);
  });

  it("say why one is empty", () => {
    const workers = [worker(0), worker(1, { state: "lost" }), worker(2, { state: "waiting" })];
    const { notes } = layOut(model([[0, 1, 1, 0, 0, 0]], { workers }), 500);
    expect(notes.map(({ text }) => text)).toEqual([
      "lost; its data waits for a free slot",
      "waits for the others, or for a free slot",
    ]);
    const gone = [worker(0, { state: "failed" }), worker(1, { state: "lost" })];
    const { run } = parts([], { state: "failed" });
    const ended = layOut(model([], { run, workers: gone }), 500);
    expect(ended.notes.map(({ text }) => text)).toEqual(["failed", "lost"]);
  });

  it("have nothing to show before the first milestone", () => {
    const made = model([], { workers: [] });
    expect(lanesSummary(made, layOut(made, 500))).toBe("No milestone yet.");
  });
});

describe("a crowd", () => {
  const crowd = (pace: (i: number) => number): RunModel => {
    const workers = Array.from({ length: 20 }, (_, i) =>
      worker(i, { samples_per_second: pace(i) }),
    );
    return model(
      workers.map((_, i) => [i, 1, 1, 0, 0, 0]),
      { workers },
    );
  };

  it("begins with its slowest, which alone have a name", () => {
    const { lanes, height } = layOut(
      crowd((i) => (i === 13 ? 1 : 100 + i)),
      500,
    );
    expect(lanes.slice(0, 3).map(({ index }) => index)).toEqual([13, 0, 1]);
    expect(lanes.map((lane) => lane.height)).toEqual([
      ...Array<number>(5).fill(18),
      ...Array<number>(15).fill(4),
    ]);
    expect(height).toBe(150);
  });

  it("keeps its order for a while, so that it can be looked at", () => {
    const view: View = { seconds: null };
    layOut(crowd((i) => i), 500, view); // prettier-ignore
    const { lanes } = layOut(crowd((i) => 20 - i), 500, view); // prettier-ignore
    expect(lanes[0].index).toBe(0);
  });
});

describe("64 workers and 2000 milestones", () => {
  it("cost a bounded number of boxes, one at most for each part of a milestone", () => {
    const kernel = new FakeKernel({ workers: 64, executors: 64, rate: 10 });
    kernel.advance(5);
    const { content, buffers: views } = kernel.message("snapshot");
    const made = new RunModel();
    made.apply(content, views);
    expect(made.lanes.length).toBe(2000);
    const layout = layOut(made, 800);
    expect(layout.lanes).toHaveLength(64);
    const boxes = [...layout.compute, layout.exchange, layout.wait].flat().length / 4;
    expect(boxes).toBeGreaterThan(2000);
    expect(boxes).toBeLessThanOrEqual(6000);
  });
});
