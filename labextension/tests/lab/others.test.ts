import type { INotebookModel } from "@jupyterlab/notebook";
import { beforeEach, expect, it } from "vitest";

import { othersOf } from "../../src/lab/others";
import { RUN_MIME } from "../../src/lab/protocol";
import { listener, parts } from "../fakes";
import { FakeKernel, row } from "./panel-fakes";

/** An output as a notebook holds it; `run` is what was saved of one. */
function output(run?: object): object {
  const { totals, workers } = parts([2]);
  const points = ["1,2", "100,200", "0.5,1", "2,1"];
  const series = [{ name: "loss", split: "training", points }];
  const saved = { run, totals, series, workers, marks: [], commands: [], log: [] };
  return { data: run ? { [RUN_MIME]: { run: "x", number: 1, saved } } : { "text/plain": "4" } };
}

function notebook(...outputs: object[]): INotebookModel {
  const cell = {
    type: "code",
    outputs: { length: outputs.length, get: (i: number) => outputs[i] },
  };
  return { cells: [{ type: "markdown" }, cell] } as unknown as INotebookModel;
}

const saved = (id: string, name: string): object =>
  output({ ...parts().run, id, name, state: "finished" });

let kernel: FakeKernel;

beforeEach(() => {
  kernel = new FakeKernel();
  kernel.tell([row(3), row(4, { name: "second" }), row(5, { hidden: true, state: "finished" })]);
});

it("the kernel's other runs come first, the newest of them before all, and each once", () => {
  const held = notebook(output(), saved("r4", "old"), saved("z", "kept"), output({ state: 4 }));
  const found = othersOf("r3", kernel, held);
  expect(found.map(({ id, name, detail }) => [id, name, detail])).toEqual([
    ["r4", "second", "running"],
    ["z", "kept", "saved in this notebook"],
  ]);
});

it("a run that was removed from the panel is not offered as it was saved either", () => {
  const found = othersOf("r3", kernel, notebook(saved("r5", "removed"), saved("z", "kept")));
  expect(found.map(({ id }) => id)).toEqual(["r4", "z"]);
});

it("a run of the kernel is followed at ease", () => {
  const [choice] = othersOf("r3", kernel, null);
  expect(choice.open()).toBe(kernel.opened);
  expect(kernel.channel).toHaveBeenCalledExactlyOnceWith("r4");
  expect(kernel.opened.pace).toHaveBeenCalledExactlyOnceWith(2);
});

it("a saved run tells what was saved", async () => {
  const [choice] = othersOf("r3", null, notebook(saved("z", "kept")));
  const view = listener();
  await choice.open().open(view);
  expect(view.message.mock.lastCall?.[0]).toMatchObject({ state: { run: { name: "kept" } } });
});

it("what a kernel that is gone has left is not offered, but what was saved is", () => {
  kernel.become("lost");
  const found = othersOf("r3", kernel, notebook(saved("r4", "second"), saved("r3", "itself")));
  expect(found.map(({ id, detail }) => [id, detail])).toEqual([["r4", "saved in this notebook"]]);
});
