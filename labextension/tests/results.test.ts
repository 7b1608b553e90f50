import { expect, it } from "vitest";

import { Bars } from "../src/view/facts";
import { type Concern, RunModel } from "../src/view/model";
import { power, results, trouble } from "../src/view/results";
import { buffers, entered, parts } from "./fakes";

function told(totals: object, more = {}): RunModel {
  const made = parts();
  const state = { ...made, totals: { ...made.totals, ...totals }, ...more };
  const model = new RunModel();
  model.apply({ type: "snapshot", seq: 1, state }, buffers([]));
  return model;
}

it("the latest evaluation stands beside its best, where the kernel knows that", () => {
  const validation = { accuracy: 0.5, odd: 1 };
  const best = { accuracy: { value: 0.75, epoch: 2 } };
  expect(results(told({ validation, best }))).toEqual([
    { name: "accuracy", latest: 0.5, best: 0.75, epoch: 2 },
    { name: "odd", latest: 1, best: null, epoch: null },
  ]);
  expect(results(told({}))).toEqual([]);
});

it("a run that overfits or diverges says so, and since which learning rate", () => {
  const warned = (warning: Concern | null, more = {}) => trouble(told({ warning }, more));
  expect(warned(null)).toBeNull();
  expect(warned({ kind: "overfitting", epoch: 22, factor: null })).toEqual({
    ...{ kind: "overfitting", text: "overfitting since epoch 22", back: null },
    brief: "overfits",
  });
  const diverging = { kind: "diverging", epoch: null, factor: 31_000 } as const;
  expect(warned(diverging)?.text).toBe("loss 3·10⁴ times its lowest");
  expect(warned({ ...diverging, factor: null })?.text).toBe("loss is not finite");
  const commands = [entered({ command: "set", changes: { learning_rate: "1000" } })];
  expect(warned(diverging, { commands })?.text).toBe(
    "loss 3·10⁴ times its lowest, since learning rate 1000",
  );
});

it("a run that diverges since a learning rate was set knows the one of before", () => {
  const warning = { kind: "diverging", epoch: null, factor: 31_000 } as const;
  const commands = [entered({ command: "set", changes: { learning_rate: "1000" } })];
  const back = (run: object, entries = commands) => {
    const all = { ...parts().run, ...run };
    return trouble(told({ warning }, { run: all, commands: entries }))?.back;
  };
  expect(back({ learning_rate: 1000, rate_before: 0.1 })).toBe(0.1);
  expect(back({ learning_rate: 1000 })).toBeNull();
  // Set back already, or not to blame.
  expect(back({ learning_rate: 0.1, rate_before: 1000 })).toBeNull();
  expect(back({ learning_rate: 0.1, rate_before: 0.2 }, [])).toBeNull();
});

it("large factors are powers of ten", () => {
  expect([power(12.4), power(340), power(31_000)]).toEqual(["12", "340", "3·10⁴"]);
});

it("rates of late are bars, one a second at most", () => {
  const bars = new Bars();
  expect(bars.add(10, 0)).toBe("");
  expect(bars.add(20, 200)).toBe("");
  expect(bars.add(20, 1000)).toBe("▅█");
  expect(bars.add(null, 2000)).toBe("▅█");
  for (let i = 2; i < 30; i++) bars.add(0, 1000 * i);
  expect(bars.add(5, 1e6)).toBe("▁▁▁▁▁▁▁▁▁█");
});
