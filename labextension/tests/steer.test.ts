import { describe, expect, it } from "vitest";

import type { CommandEntry } from "../src/view/model";
import type { Answer } from "../src/view/requests";
import { eachOnItsOwnPage, type Fixture } from "./controls-fixture";
import { entered } from "./fakes";
import { actions } from "../demo/kernel";
import kernel from "./kernel-commands.json";

let on: Fixture;
eachOnItsOwnPage((fixture) => {
  on = fixture;
});

const { answers, entries } = kernel as unknown as {
  answers: Record<string, Answer>;
  entries: CommandEntry[];
};

function sentByKernel(command: string, stage: string): CommandEntry {
  const found = entries.find((entry) => entry.command === command && entry.stage === stage);
  if (!found) throw new Error(`Expected an entry of ${command}.`);
  return found;
}

describe("fields", () => {
  it.each([
    ["partitions", "8", "repartition", { partitions: 8 }],
    ["codec", "int8", "set", { codec: "int8" }],
    ["sync", "bsp", "set", { sync: "bsp" }],
    ["combiner", "easgd", "swap combiner", { combiner: "easgd" }],
    ["strategy", "allreduce", "swap strategy", { strategy: "allreduce" }],
    ["learning-rate", "0.2", "set", { learning_rate: 0.2 }],
    ["sync-interval", "20", "set", { sync_interval: 20 }],
  ])("%s sends its value", (name, value, command, expected) => {
    on.show();
    on.type(name, value);
    on.apply();
    expect(on.sent).toEqual([[command, expected]]);
  });

  it("offer combiners in groups, and say a word about the one that was chosen", () => {
    const [pause] = actions;
    const combiner = {
      ...{ name: "combiner", label: "Combiner", kind: "str" as const, optional: false },
      choices: ["downpour", "fedavg", "median"],
      groups: { Asynchronous: ["downpour"], "By rounds": ["fedavg"], Robust: ["median"] },
      about: { fedavg: "Every round begins at one center." },
    };
    const swap = { name: "swap combiner", verb: "Swap", arguments: [combiner] };
    on.show({ actions: [pause, swap], combiner: "my own" });
    const select = on.find("select");
    expect([...select.children].map((e) => e.getAttribute("label") ?? e.textContent)).toEqual([
      ...["my own", "Asynchronous", "By rounds", "Robust"],
    ]);
    on.type("combiner", "fedavg");
    expect(on.noteOf("combiner")).toBe("Every round begins at one center.");
    on.apply();
    expect(on.sent).toEqual([["swap combiner", { combiner: "fedavg" }]]);
  });

  it("begin at the program's own learning rate, and double what is in force", () => {
    on.show({ learning_rate: null, own_rate: 0.123456 });
    expect(on.find<HTMLInputElement>('[data-tos="learning-rate"] input').value).toBe("0.1235");
    on.find('[aria-label="Twice the learning rate"]').click();
    on.apply();
    expect(on.sent).toEqual([["set", { learning_rate: 0.2469 }]]);
  });

  it("that were changed are marked, counted, and applied with one press", () => {
    on.show();
    on.type("codec", "int8");
    on.type("learning-rate", "0.2");
    on.type("combiner", "easgd");
    expect(on.find('[data-tos="codec"]').hasAttribute("data-changed")).toBe(true);
    expect(on.find('[data-tos="partitions"]').hasAttribute("data-changed")).toBe(false);
    expect(on.find(".tos-changes").textContent).toBe(
      "3 changes: combiner easgd, codec int8, learning rate 0.2",
    );
    on.apply();
    expect(on.sent).toEqual([
      ["swap combiner", { combiner: "easgd" }],
      ["set", { codec: "int8", learning_rate: 0.2 }],
    ]);
    expect(on.told).toBe("sent: combiner easgd, codec int8, learning rate 0.2");
    on.apply();
    expect(on.sent).toHaveLength(2);
  });

  it("show what is in force again after Undo", () => {
    on.show();
    on.type("partitions", "8");
    on.find('[data-tos="undo"]').click();
    expect(on.find<HTMLInputElement>('[data-tos="partitions"] input').value).toBe("2");
    on.apply();
    expect(on.sent).toEqual([]);
    expect(on.find('[data-tos="apply"]').title).toBe("nothing is changed");
  });

  it("show what is in force, but not over what is being typed", () => {
    on.show();
    const input = on.find<HTMLInputElement>('[data-tos="partitions"] input');
    expect(input.value).toBe("2");
    on.type("partitions", "64");
    on.show({ partitions: 4 });
    expect(input.value).toBe("64");
  });

  it("keep what was asked until it is in force, and are no change meanwhile", () => {
    on.show();
    on.type("partitions", "8");
    on.apply();
    on.controls.answer(1, answers.repartition);
    on.show({}, [sentByKernel("repartition", "asked")]);
    const input = on.find<HTMLInputElement>('[data-tos="partitions"] input');
    expect([input.value, on.find(".tos-changes").textContent]).toEqual(["8", ""]);
    on.show({ partitions: 8 }, [{ ...sentByKernel("repartition", "asked"), stage: "in force" }]);
    expect([input.value, on.noteOf("partitions")]).toEqual(["8", ""]);
    expect(on.find('[data-tos="partitions"]').hasAttribute("data-changed")).toBe(false);
  });

  it.each([
    ["learning-rate", "0", "expected a number above 0"],
    ["learning-rate", "a", "expected a number above 0"],
    ["partitions", "1.5", "expected a whole number above 0"],
    ["partitions", "", "expected a whole number above 0"],
  ])("say of %s = %j what is wrong with it while it is typed", (name, value, problem) => {
    on.show();
    on.type(name, value);
    expect(on.noteOf(name)).toBe(problem);
    expect(on.find(`[data-tos="${name}"] input`).getAttribute("aria-invalid")).toBe("true");
    on.apply();
    expect(on.sent).toEqual([]);
    on.type(name, "3");
    expect(on.noteOf(name)).toBe("");
  });

  it("ask once about a learning rate far from the present one", () => {
    on.show({ learning_rate: 0.01 });
    on.type("learning-rate", "1");
    on.apply();
    expect(on.noteOf("learning-rate")).toBe("100 times the current rate");
    expect(on.find('[data-tos="apply"]').textContent).toBe("Apply anyway");
    on.apply();
    expect(on.sent).toEqual([]);
    on.time += 1000;
    on.apply();
    expect(on.sent).toEqual([["set", { learning_rate: 1 }]]);
  });

  it("of the learning rate can be halved and doubled", () => {
    on.show({ learning_rate: 0.01 });
    on.find('[aria-label="Twice the learning rate"]').click();
    on.find('[aria-label="Twice the learning rate"]').click();
    on.find('[aria-label="Half the learning rate"]').click();
    on.apply();
    expect(on.sent).toEqual([["set", { learning_rate: 0.02 }]]);
  });
});

describe("the strategy", () => {
  const combined = actions.filter(({ name }) => name !== "swap combiner");
  const together = combined.map((action) => ({
    ...action,
    arguments: action.arguments.filter(({ name }) => name !== "sync"),
  }));
  const forms = (): (string | undefined)[] =>
    [...on.element.querySelectorAll<HTMLElement>(".tos-forms > *")].map((row) => row.dataset.tos);
  const chosen = (): string => on.find<HTMLSelectElement>('[data-tos="strategy"] select').value;

  it("is chosen by its label, among names, beginning at what is in force", () => {
    on.show({ strategy: "allreduce (of parameters)" });
    const select = on.find<HTMLSelectElement>('[data-tos="strategy"] select');
    expect(select.labels[0].textContent).toBe("Strategy");
    expect([...select.options].slice(0, 2).map(({ value }) => value)).toEqual([
      "ps",
      "ps:shards=2",
    ]);
    expect(select.value).toBe("allreduce");
    expect(select.getAttribute("aria-describedby")).toBe(
      on.find('[data-tos="strategy"] .tos-note').id,
    );
  });

  it("takes fields away that it does not know, and brings them back where they were", () => {
    on.show({ strategy: "ps", actions });
    const before = forms();
    expect(before).toContain("combiner");
    expect(before).toContain("sync");
    const field = on.find('[data-tos="strategy"] select');
    on.show({ strategy: "allreduce (of gradients)", actions: together });
    expect(forms()).toEqual(before.filter((name) => name !== "combiner" && name !== "sync"));
    expect(on.find('[data-tos="strategy"] select')).toBe(field);
    on.show({ strategy: "ps", actions });
    expect(forms()).toEqual(before);
    expect(chosen()).toBe("ps");
  });

  it("keeps what was asked while the fields change", () => {
    on.show({ strategy: "ps", actions });
    on.type("strategy", "allreduce");
    on.apply();
    on.controls.answer(1, answers["swap strategy"]);
    expect(on.noteOf("strategy")).toBe("asked; applies at the end of the epoch");
    on.show({ strategy: "allreduce (of gradients)", actions: together }, [
      entered({ command: "swap strategy", detail: "allreduce", stage: "in force" }),
    ]);
    expect(on.told).toMatch(/^in force: swap strategy: allreduce, since/);
    expect(chosen()).toBe("allreduce");
  });
});
