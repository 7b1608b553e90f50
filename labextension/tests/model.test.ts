import { describe, expect, it } from "vitest";

import { pack } from "../demo/kernel";
import { LANE_ROWS, MAX_LANES, MAX_POINTS, RunModel, Table } from "../src/view/model";
import { mergeCommands } from "../src/view/entries";
import { buffers, entered, parts, worker } from "./fakes";

function started(losses = [2, 1]): RunModel {
  const model = new RunModel();
  model.apply({ type: "snapshot", seq: 5, state: parts(losses) }, buffers(losses));
  return model;
}

function loss(model: RunModel): number[] {
  return [...model.series[0].points.column(3)];
}

describe("snapshots", () => {
  it("replace everything", () => {
    const model = started([9, 8, 7]);
    model.apply({ type: "snapshot", seq: 40, state: parts([1]) }, buffers([1]));
    expect(loss(model)).toEqual([1]);
    expect(model.totals?.milestones).toBe(1);
  });

  it("keep milestones that are older than the snapshot's", () => {
    const model = new RunModel();
    const one = { ...parts(), lanes: { length: 2 } };
    model.apply(
      { type: "snapshot", seq: 1, state: one },
      buffers([], [[0, 1, 1, 0, 0, 0], [0, 2, 1, 0, 0, 0]]), // prettier-ignore
    );
    model.apply(
      { type: "snapshot", seq: 2, state: { ...parts(), lanes: { length: 1 } } },
      buffers([], [[0, 2, 1, 0, 0, 0]]),
    );
    expect([...model.lanes.column(1)]).toEqual([1, 2]);
  });

  it("can be made of a model again", () => {
    const losses = [3, 2, 0.5];
    const state = { ...parts(losses), lanes: { length: 1 } };
    const model = new RunModel();
    const told = buffers(losses, [[0, 3, 1, 0.25, 0, 2]]);
    model.apply({ type: "snapshot", seq: 7, state }, told);
    expect(model.snapshot()).toEqual({
      message: { type: "snapshot", seq: 7, state },
      buffers: told,
    });
    expect(new RunModel().snapshot()).toBeNull();
  });

  it("drop them if the workers are others", () => {
    const model = new RunModel();
    const state = { ...parts(), lanes: { length: 1 } };
    model.apply({ type: "snapshot", seq: 1, state }, buffers([], [[0, 1, 1, 0, 0, 0]]));
    const other = { ...state, workers: [worker(7)] };
    model.apply({ type: "snapshot", seq: 2, state: other }, buffers([], [[0, 3, 1, 0, 0, 0]]));
    expect([...model.lanes.column(1)]).toEqual([3]);
  });

  it("say what was wrong with a buffer", () => {
    const model = new RunModel();
    expect(() => model.apply({ type: "snapshot", seq: 1, state: parts([1, 2]) }, [])).toThrow(
      "Expected a buffer of 32 bytes from the kernel, got none.",
    );
  });
});

describe("deltas", () => {
  it("change the run, and leave what they do not name", () => {
    const model = started();
    const before = model.run;
    model.apply({ type: "delta", seq: 6, state: { run: { state: "paused" } } }, []);
    expect(model.run).toEqual({ ...before, state: "paused" });
  });

  it("append points and replace the rest", () => {
    const model = started();
    const { series, totals } = parts([0.5]);
    const outcome = model.apply(
      { type: "delta", seq: 6, state: { series, totals } },
      buffers([0.5]),
    );
    expect(outcome).toBe("applied");
    expect(loss(model)).toEqual([2, 1, 0.5]);
    expect(model.totals?.loss).toBe(0.5);
    expect(model.run?.number).toBe(3);
  });

  it("may bring new series at the end", () => {
    const model = started();
    const series = [
      { name: "loss", split: "training" as const, length: 0 },
      { name: "loss", split: "validation" as const, length: 1 },
    ];
    const fresh = [pack([], 4), pack([[1, 2, 3, 4]], 4)];
    expect(model.apply({ type: "delta", seq: 6, state: { series } }, fresh)).toBe("applied");
    expect(model.series.map(({ split }) => split)).toEqual(["training", "validation"]);
    expect([...model.series[1].points.column(3)]).toEqual([4]);
  });

  it("that carry nothing are a heartbeat", () => {
    const model = started();
    expect(model.apply({ type: "delta", seq: 6, state: {} }, [])).toBe("applied");
    expect(loss(model)).toEqual([2, 1]);
  });

  it("before a snapshot, and after a loss, are a gap that changes nothing", () => {
    const delta = { type: "delta" as const, state: parts([0.5]) };
    expect(new RunModel().apply({ ...delta, seq: 0 }, buffers([0.5]))).toBe("gap");
    const model = started();
    expect(model.apply({ ...delta, seq: 7 }, buffers([0.5]))).toBe("gap");
    expect(loss(model)).toEqual([2, 1]);
    expect(model.apply({ type: "snapshot", seq: 9, state: parts([3]) }, buffers([3]))).toBe(
      "applied",
    );
    expect(model.apply({ ...delta, seq: 10 }, buffers([0.5]))).toBe("applied");
  });

  it("that came before are old", () => {
    expect(started().apply({ type: "delta", seq: 5, state: parts([1]) }, buffers([1]))).toBe("old");
  });

  it("of other series, or of too many points, ask for a snapshot", () => {
    const series = [{ name: "accuracy", split: "training" as const, length: 0 }];
    expect(started().apply({ type: "delta", seq: 6, state: { series } }, [])).toBe("gap");
    const many = new Array<number>(MAX_POINTS).fill(1);
    const state = { series: parts(many).series };
    expect(started().apply({ type: "delta", seq: 6, state }, buffers(many))).toBe("gap");
  });

  it("bound the memory of marks, log and lanes", () => {
    const model = started();
    const log = Array.from({ length: 300 }, (_, time) => ({
      time,
      level: "info" as const,
      text: "",
    }));
    const rows = Array.from({ length: 9000 }, (_, i) => [0, i, 1, 0, 0, 0]);
    const lanes = { length: rows.length };
    model.apply({ type: "delta", seq: 6, state: { log, lanes } }, [pack(rows, 6)]);
    expect(model.log).toHaveLength(200);
    expect(model.lanes.length).toBe(MAX_LANES);
    expect(model.lanes.column(1).at(-1)).toBe(8999);
  });
});

describe("commands", () => {
  it("replace their earlier stage", () => {
    const asked = entered({ stage: "asked" });
    const inForce = { ...asked, stage: "in force" as const };
    expect(mergeCommands([asked], [inForce])).toEqual([inForce]);
    expect(mergeCommands([asked], [{ ...inForce, time: 2 }])).toHaveLength(2);
  });
});

describe("a table", () => {
  it("grows, and forgets its oldest rows", () => {
    const table = new Table(LANE_ROWS, 100);
    for (let i = 0; i < 250; i += 10) {
      const rows = Array.from({ length: 10 }, (_, j) => [i + j, 0, 0, 0, 0, 0]);
      table.append(pack(rows, 6), 10);
    }
    expect([...table.column(0)]).toEqual(Array.from({ length: 100 }, (_, i) => 150 + i));
  });
});
