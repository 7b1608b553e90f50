import { expect, it } from "vitest";

import { ErrorBrief } from "../src/view/error";
import { RunModel } from "../src/view/model";
import { buffers, parts } from "./fakes";

it("tells in short where an error was raised, and what stands there, unless the charts' place does", () => {
  const brief = new ErrorBrief(() => undefined);
  const after = (milestones: number[], ...frames: string[]): string => {
    const model = new RunModel();
    const error = { message: "ValueError: no", where: "executor 1", frames, rest: "" };
    const state = parts(milestones, { state: "failed", error });
    model.apply({ type: "snapshot", seq: 1, state }, buffers(milestones));
    brief.draw(model);
    return brief.element.querySelector(".tos-brief-where")?.textContent ?? "";
  };
  const told = (...frames: string[]): string => after([1], ...frames);
  const [place, code, signs] = ['File "a", line 12, in f', "    return  x / 0", "        ~~^~~"];
  const all = 'File "a", line 12, in f: return x / 0';
  expect(told("File other", place, code)).toBe(all);
  expect(told("File other\n    f()", `${place}\n${code}\n${signs}`)).toBe(all);
  expect(told("line 12")).toBe("line 12");
  expect(told()).toBe("On executor 1.");
  expect(after([], place, code)).toBe("On executor 1.");
});
