import { describe, expect, it } from "vitest";

import { bands, flags, overlay, told } from "../src/view/charts-marks";
import { fixedRate, throughput } from "../src/view/charts-work";
import type { Axis } from "../src/view/curves";
import {
  AXIS_ROWS,
  type CommandEntry,
  type RunInfo,
  RunModel,
  type Series,
  Table,
} from "../src/view/model";
import { entered, parts, worker } from "./fakes";

const command = (time: number, name: string, changes: Partial<CommandEntry> = {}): CommandEntry =>
  entered({ time, since: time + 0.5, command: name, ...changes });

const RATE = command(4, "set", {
  ...{ changes: { learning_rate: "0.01" }, detail: "learning_rate=0.01" },
});
const SWAP = command(2, "swap combiner", { changes: { combiner: "easgd" }, detail: "easgd" });

describe("flags", () => {
  it("tell what was steered, from when it is in force", () => {
    const all = flags({ commands: [SWAP, RATE], marks: [], workers: [] });
    expect(all.map(({ time, label }) => [time, label])).toEqual([
      [2.5, "easgd"],
      [4.5, "LR 0.01"],
    ]);
    expect(told(all)).toBe("⚑ swap combiner: easgd\n⚑ set: learning_rate=0.01");
  });

  it("are in words, and whole", () => {
    const combiner = "EASGD(alpha=0.9, tau=None)";
    const swap = command(2, "swap combiner", { changes: { combiner }, detail: combiner });
    const [flag] = flags({ commands: [swap], marks: [], workers: [] });
    expect(flag.label).toBe("EASGD, alpha 0.9");
    expect(flag.text).toBe("swap combiner: EASGD, alpha 0.9");
    const bare = command(2, "swap combiner", { changes: { combiner: "EASGD(alpha=None)" } });
    expect(flags({ commands: [bare], marks: [], workers: [] })[0].label).toBe("EASGD");
  });

  it("leave out what was refused or is only asked for, and pauses, which are bands", () => {
    const commands = [
      command(1, "set", { stage: "refused" }),
      command(2, "set", { stage: "asked" }),
      ...[command(3, "pause"), command(4, "unpause")],
    ];
    expect(flags({ commands, marks: [], workers: [] })).toEqual([]);
  });

  it("name workers that were lost or began again, in the order of time", () => {
    const marks = [
      { time: 3, worker: 1, kind: "retry" as const, text: "attempt 2" },
      { time: 1, worker: 1, kind: "lost" as const, text: "gone" },
      // Of a worker that is known no more.
      { time: 2, worker: 9, kind: "failed" as const, text: "ValueError" },
    ];
    const all = flags({ commands: [], marks, workers: [worker(0), worker(1)] });
    expect(told(all).split("\n")).toEqual([
      "✕ p1 lost: gone",
      "✕ failed: ValueError",
      "↻ p1 retry: attempt 2",
    ]);
  });
});

describe("bands", () => {
  it("are pauses, and chaos until it is off or now", () => {
    const commands = [
      ...[command(1, "pause"), command(3, "unpause")],
      ...[command(5, "chaos", { detail: "partition 1: 5 times slower" })],
      command(6, "pause"),
    ];
    expect(bands({ commands }, 9)).toEqual([
      { from: 1.5, to: 3.5, kind: "pause" },
      { from: 5.5, to: 9, kind: "chaos" },
      { from: 6.5, to: 9, kind: "pause" },
    ]);
    const short = command(7, "chaos", { detail: "partition 1: killed, for at most 0.5 s" });
    expect(bands({ commands: [short] }, 9)).toEqual([{ from: 7.5, to: 8, kind: "chaos" }]);
    const off = command(8, "chaos", { detail: "off" });
    expect(bands({ commands: [...commands, off] }, 9)[1]).toMatchObject({ to: 8.5 });
  });
});

describe("on an axis", () => {
  const model = new RunModel();
  Object.assign(model, parts());
  const points = Table.of(AXIS_ROWS, [[1, 3, 5], [100, 300, 500], [1, 3, 5], [2, 1, 0.5]]); // prettier-ignore
  model.series = [{ name: "loss", split: "training", points }];
  model.commands = [SWAP, command(3, "pause"), command(3.4, "unpause")];

  it.each<[Axis, number]>([
    ["time", 2.5],
    ["samples", 250],
    ["epoch", 2.5],
  ])("%s a flag stands where the training was then", (axis, x) => {
    expect(overlay(model, axis).flags[0].x).toBeCloseTo(x);
  });

  it("of time alone a pause has a length", () => {
    expect(overlay(model, "time").bands).toHaveLength(1);
    model.series = [];
    expect(overlay(model, "samples")).toEqual({ flags: [], bands: [] });
  });
});

describe("the work", () => {
  it("is as fast as samples come", () => {
    const rows = [0, 1, 2, 4].map((time, i): [number, number, number, number] => [
      ...([time, 100 * i, i, 1] as [number, number, number, number]),
    ]);
    expect(throughput(rows).map(([time, , , value]) => [time, value])).toEqual([
      [2, 100],
      [4, 50],
    ]);
    expect(throughput(rows.slice(0, 1))).toEqual([]);
    // Nothing is trained in a pause: it makes nothing slower.
    const pause = { from: 2.5, to: 3.5, kind: "pause" as const };
    expect(throughput(rows, [pause]).map(([time, , , value]) => [time, value])).toEqual(
      [1, 2, 4].map((time) => [time, 100]),
    );
  });

  it("has the learning rate that never changed; one that did is a curve of the kernel's", () => {
    const rows: [number, number, number, number][] = [
      [1, 10, 1, 2],
      [5, 50, 5, 2],
      [9, 90, 9, 1],
    ];
    const run = { ...parts().run, learning_rate: 0.1 };
    const values = (more: Partial<RunInfo>, series: Series[] = []) =>
      fixedRate({ series, run: { ...run, ...more } }, rows).map(([x, , , y]) => [x, y]);
    expect(values({})).toEqual([[1, 0.1], [5, 0.1], [9, 0.1]]); // prettier-ignore
    expect(values({ learning_rate: null, own_rate: 0.001 })).toEqual([[1, 0.001], [5, 0.001], [9, 0.001]]); // prettier-ignore
    expect(values({ learning_rate: null })).toEqual([]);
    const points = Table.of(AXIS_ROWS, [[1], [10], [1], [0.2]]);
    expect(values({}, [{ name: "learning rate", split: "work", points }])).toEqual([]);
  });
});
