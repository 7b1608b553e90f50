import { expect, it } from "vitest";

import { argument } from "../../src/lab/run-words";
import { row } from "./panel-fakes";

it("magics are given a run's name where it is one word and of one run, else its number", () => {
  const names = ["first", "größer", "twice", "twice", "two words", "$HOME", "-all", "7", null];
  const all = names.map((name, i) => row(i + 1, { name }));
  expect(all.map((one) => argument(one, all))).toEqual([
    ...["first", "größer", "3", "4", "5", "6", "7", "8", "9"],
  ]);
});
