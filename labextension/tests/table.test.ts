import { beforeEach, describe, expect, it, vi } from "vitest";

import { RunModel, type Shard, type Worker } from "../src/view/model";
import { WorkerTable } from "../src/view/table";
import { buffers, parts, worker } from "./fakes";

let table: WorkerTable;

function show(workers: Worker[], state = "running"): void {
  const model = new RunModel();
  const shown = parts([], { state });
  model.apply({ type: "snapshot", seq: 1, state: { ...shown, workers } }, buffers([]));
  table.draw(model);
}

const paced = (rates: number[]): Worker[] =>
  rates.map((rate, i) => worker(i, { samples_per_second: rate }));
const partitions = (): string[] =>
  [...table.element.querySelectorAll<HTMLTableRowElement>("tbody tr")].map(
    ({ cells }) => cells[1].textContent,
  );
function sort(name: string): HTMLElement {
  const heads = [...table.element.querySelectorAll<HTMLElement>("thead th")];
  const head = heads.find(({ textContent }) => textContent === name);
  if (!head) throw new Error(`Expected a column ${name}.`);
  head.querySelector("button")?.click();
  return head;
}

beforeEach(() => {
  table = new WorkerTable();
});

describe("the table of workers", () => {
  it("has them by their partition, and sorted by a column after a click, and back", () => {
    show(paced([30, 10, 20]));
    expect(partitions()).toEqual(["0", "1", "2"]);
    const head = sort("Samples/s");
    expect(partitions()).toEqual(["1", "2", "0"]);
    expect(head.getAttribute("aria-sort")).toBe("ascending");
    sort("Samples/s");
    expect(partitions()).toEqual(["0", "2", "1"]);
    expect(head.getAttribute("aria-sort")).toBe("descending");
    sort("Part.");
    expect(partitions()).toEqual(["0", "1", "2"]);
    expect(head.hasAttribute("aria-sort")).toBe(false);
  });

  it("tells those that have done their work from those that failed or were stopped", () => {
    const states = ["done", "stopped", "failed", "lost"] as const;
    show(
      states.map((state, i) => worker(i, { state })),
      "failed",
    );
    const rows = [...table.element.querySelectorAll<HTMLTableRowElement>("tbody tr")];
    expect(rows.map(({ cells }) => cells[3].textContent)).toEqual([
      ...["✓ done", "■ stopped", "✕ failed", "✕ lost"],
    ]);
  });

  it("says that few workers are sorted by their partition, however they came", () => {
    show([worker(2), worker(0), worker(1)]);
    expect(partitions()).toEqual(["0", "1", "2"]);
    const sorted = [...table.element.querySelectorAll("[aria-sort]")];
    expect(sorted.map(({ textContent }) => textContent)).toEqual(["Part."]);
  });

  it("has a row for each shard of the parameters below them, in any order", () => {
    const shard: Shard = {
      ...worker(0, { executor: "shard 1", host: "node", state: "serving", milestones: 70 }),
      ...{ partition: null, epoch: null, samples_per_second: null, age: null },
      ...{ cpu: 0.42, sent: 3e6 },
    };
    const model = new RunModel();
    const shown = parts([], {});
    const state = { ...shown, run: { ...shown.run, shards: [shard] }, workers: paced([30, 10]) };
    model.apply({ type: "snapshot", seq: 1, state }, buffers([]));
    table.draw(model);
    sort("Samples/s");
    const rows = [...table.element.querySelectorAll<HTMLTableRowElement>("tbody tr")];
    const last = [...rows[2].cells].map(({ textContent }) => textContent);
    expect(rows[2].cells[0].scope).toBe("row");
    expect(last.slice(0, 6)).toEqual(["shard 1", "–", "node", "◆ serving", "70", "–"]);
    expect(last).toContain("42 %");
    expect(last).toContain("3 MB");
    show(paced([30]));
    expect(partitions()).toEqual(["0"]);
  });

  it("says why a worker has nothing to do", () => {
    show([worker(0), worker(1, { state: "waiting" }), worker(2, { state: "lost" })]);
    const titles = [...table.element.querySelectorAll<HTMLElement>("tbody tr")].map(
      ({ title }) => title,
    );
    expect(titles).toEqual([
      "",
      "waits for the others, or for a free slot",
      "lost; its data waits for a free slot",
    ]);
  });

  it("says in a pause that workers wait for nothing else", () => {
    show([worker(0, { state: "waiting" })], "paused");
    expect(table.element.querySelector<HTMLElement>("tbody tr")?.title).toBe(
      "waits until the run continues",
    );
  });

  it("says and sorts what processes use, also of documents that do not tell", () => {
    show([
      worker(0, { cpu: 1.374, memory: 412e6 }),
      worker(1, { cpu: null, memory: null }),
      worker(2, { cpu: 0.5, memory: 1.2e9 }),
      worker(3),
    ]);
    const names = [...table.element.querySelectorAll("thead th")].map((th) => th.textContent);
    const [cpu, memory, sent] = ["CPU", "Memory", "Sent"].map((name) => names.indexOf(name));
    expect([memory, sent]).toEqual([cpu + 1, cpu + 2]);
    const rows = [...table.element.querySelectorAll<HTMLTableRowElement>("tbody tr")];
    expect(rows.map(({ cells }) => [cells[cpu].textContent, cells[memory].textContent])).toEqual([
      ["137 %", "412 MB"],
      ["–", "–"],
      ["50 %", "1.2 GB"],
      ["–", "–"],
    ]);
    expect(sort("CPU").querySelector("button")?.title).toContain("one core");
    expect(partitions()).toEqual(["1", "3", "2", "0"]);
    expect(sort("Memory").querySelector("button")?.title).toContain("process");
    expect(partitions()).toEqual(["1", "3", "0", "2"]);
  });

  it("leaves rows where they are for a while, though their numbers change", () => {
    const now = vi.spyOn(performance, "now").mockReturnValue(0);
    show(paced([30, 10, 20]));
    sort("Samples/s");
    now.mockReturnValue(1000);
    show(paced([1, 10, 20]));
    expect(partitions()).toEqual(["1", "2", "0"]);
    now.mockReturnValue(10_000);
    show(paced([1, 10, 20]));
    expect(partitions()).toEqual(["0", "1", "2"]);
    now.mockRestore();
  });

  it("begins with the slowest of a crowd", () => {
    show(paced(Array.from({ length: 17 }, (_, i) => 100 - i)));
    expect(partitions().slice(0, 2)).toEqual(["16", "15"]);
  });

  it("marks who is behind in its row, and says by how much", () => {
    show([worker(0, { note: "behind: 41 % of the median pace" }), worker(1)]);
    const [slow, other] = table.element.querySelectorAll<HTMLElement>("tbody tr");
    expect([slow.dataset.behind, other.dataset.behind]).toEqual(["true", "false"]);
    expect(slow.title).toBe("behind: 41 % of the median pace");
  });
});
