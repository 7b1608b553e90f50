import { describe, expect, it } from "vitest";

import { Overview } from "../../src/lab/overview";
import type { RunRow } from "../../src/lab/protocol";
import { CLUSTER, row } from "./panel-fakes";

const overview = new Overview();

function tell(seq: number, whole: boolean, runs: RunRow[], cluster = CLUSTER): boolean {
  return overview.apply({ type: "overview", seq, whole, cluster, runs });
}

function numbers(): number[] {
  return overview.runs.map(({ number }) => number);
}

describe("an overview", () => {
  it("knows nothing at first", () => {
    expect([overview.runs, overview.active, overview.current]).toEqual([[], [], null]);
    expect([overview.cluster, overview.run("r1")]).toEqual([null, null]);
  });

  it("takes nothing before the whole", () => {
    expect(tell(7, false, [row(1)])).toBe(false);
    expect(numbers()).toEqual([]);
  });

  it("takes the whole, whatever its number, and orders it by the runs' numbers", () => {
    expect(tell(4, true, [row(10), row(2), row(9)])).toBe(true);
    expect(numbers()).toEqual([2, 9, 10]);
    expect(overview.cluster).toEqual(CLUSTER);
  });

  it("takes what has changed since, and leaves the rest", () => {
    expect(tell(5, false, [row(9, { epoch: 7 }), row(11)], { ...CLUSTER, executors: 1 })).toBe(
      true,
    );
    expect(numbers()).toEqual([2, 9, 10, 11]);
    expect(overview.run("r9")?.epoch).toBe(7);
    expect(overview.cluster?.executors).toBe(1);
  });

  it("takes nothing that follows a message that was lost, and passes over what it has had", () => {
    expect(tell(7, false, [row(12)])).toBe(false);
    expect(tell(5, false, [row(12)])).toBe(true);
    expect(tell(8, false, [row(12)])).toBe(false);
    expect(numbers()).toEqual([2, 9, 10, 11]);
    expect(tell(6, false, [row(12)])).toBe(true);
  });

  it("forgets what a new whole does not name", () => {
    tell(1, true, [row(1), row(2, { state: "finished" }), row(3, { state: "failed" })]);
    expect(numbers()).toEqual([1, 2, 3]);
  });

  it("has the newest that is active for its current run, else the newest", () => {
    expect(overview.active.map(({ number }) => number)).toEqual([1]);
    expect(overview.current?.number).toBe(1);
    tell(2, false, [row(1, { state: "stopped" })]);
    expect(overview.current?.number).toBe(3);
  });
});
