import { describe, expect, it } from "vitest";

import type { CommandEntry } from "../src/view/model";
import { type Answer, note, SLOW, TOGGLE, unavailable } from "../src/view/requests";
import { eachOnItsOwnPage, type Fixture, seen } from "./controls-fixture";
import { entered } from "./fakes";
import { actions } from "../demo/kernel";
import kernel from "./kernel-commands.json";

let on: Fixture;
eachOnItsOwnPage((fixture) => {
  on = fixture;
});

/** What the kernel sends: tests/unit/widgets/test_protocol.py holds the file to that. */
const { answers, entries } = kernel as unknown as {
  answers: Record<string, Answer>;
  entries: CommandEntry[];
};

const able = (state: string) => ({ actions, state, has_learning_rate: true });

function sentByKernel(command: string, stage: string): CommandEntry {
  const found = entries.find((entry) => entry.command === command && entry.stage === stage);
  if (!found) throw new Error(`Expected an entry of ${command}.`);
  return found;
}

describe("a command", () => {
  it("is sent, answered, asked, and then in force", () => {
    on.show();
    on.find('[data-tos="pause"]').click();
    expect(on.sent).toEqual([["pause", {}]]);
    expect(on.noteOf("toggle")).toBe("sent");
    on.controls.answer(1, answers.pause);
    expect(on.noteOf("toggle")).toBe("asked; applies at each worker's next milestone");
    on.show({ state: "paused" }, [sentByKernel("pause", "asked")]);
    expect(on.noteOf("toggle")).toBe("asked (pause); applies at each worker's next milestone");
    on.show({ state: "paused" }, [sentByKernel("pause", "in force")]);
    expect(on.noteOf("toggle")).toBe("in force (pause)");
  });

  it("without an answer says that it waits for the running cell", () => {
    on.show();
    on.find('[data-tos="pause"]').click();
    on.time = SLOW + 1;
    on.controls.drawNotes();
    expect(on.noteOf("toggle")).toBe("sent; waits for the running cell");
    on.find('[data-tos="pause"]').click();
    expect(on.sent).toHaveLength(1);
  });

  it("that is refused says why", () => {
    on.show();
    on.find('[data-tos="combiner"] button').click();
    on.controls.answer(1, answers["what is no command"]);
    expect(on.noteOf("combiner")).toMatch(/^refused: Expected one of .*explode/);
  });

  it.each([
    ["learning-rate", "set", "asked (0.01); applies at each worker's next milestone"],
    ["sync", "set", "asked (bsp); applies at each worker's next milestone"],
    ["sync-interval", "set", ""],
    ["codec", "set", ""],
    ["partitions", "repartition", "asked (8 partitions); applies at the end of the epoch"],
    [
      "strategy",
      "swap strategy",
      "asked (allreduce (of=gradients)); applies at the end of the epoch",
    ],
    ["toggle", "unpause", "asked (unpause); applies at once"],
    ["stop", "stop", "asked; applies at each worker's next milestone"],
    [
      "chaos",
      "chaos",
      "asked (partition 1: 5 times slower); applies at each worker's next milestone",
    ],
  ])("of another view shows at %s when it is of %s", (name, command, expected) => {
    on.show({}, [sentByKernel(command, "asked")]);
    expect(on.noteOf(name)).toBe(expected);
  });

  it("makes way for the one that undid it", () => {
    const pause = entered({ time: 1, command: "pause" });
    const unpause = entered({ time: 2, command: "unpause" });
    expect(note(TOGGLE, null, [pause, unpause], 0)).toBe("in force (unpause)");
    const again = { sent: 0, before: 2, answer: answers.pause };
    expect(note(TOGGLE, again, [pause, unpause], 0)).toContain("asked; applies at each");
  });

  it("does not take an older command for its own", () => {
    const request = { sent: 0, before: 1, answer: answers.unpause };
    expect(note(TOGGLE, request, [entered({ command: "pause" })], 0)).toBe(
      "asked; applies at once",
    );
  });
});

describe("fields", () => {
  it.each([
    ["partitions", "8", "repartition", { partitions: 8 }],
    ["codec", "int8", "set", { codec: "int8" }],
    ["sync", "bsp", "set", { sync: "bsp" }],
    ["combiner", "easgd", "swap combiner", { combiner: "easgd" }],
    ["strategy", "allreduce", "swap strategy", { strategy: "allreduce" }],
    ["learning-rate", "0.01", "set", { learning_rate: 0.01 }],
    ["sync-interval", "20", "set", { sync_interval: 20 }],
  ])("%s sends its value", (name, value, command, expected) => {
    on.show();
    const input = on.find(`[data-tos="${name}"] :is(input, select)`) as HTMLInputElement;
    input.value = value;
    input.dispatchEvent(new Event("input"));
    on.find(`[data-tos="${name}"] button`).click();
    expect(on.sent).toEqual([[command, expected]]);
  });

  it("show what is in force, but not over what is being typed", () => {
    on.show();
    const input = on.find('[data-tos="partitions"] input') as HTMLInputElement;
    expect(input.value).toBe("2");
    input.value = "64";
    input.dispatchEvent(new Event("input"));
    on.show({ partitions: 4 });
    expect(input.value).toBe("64");
  });
});

describe("the strategy", () => {
  const combined = actions.filter(({ name }) => name !== "swap combiner");
  const together = combined.map((action) => ({
    ...action,
    arguments: action.arguments.filter(({ name }) => name !== "sync"),
  }));
  const forms = (): (string | null)[] =>
    [...on.controls.element.querySelectorAll("form")].map((form) => form.getAttribute("data-tos"));
  const chosen = (): string => (on.find('[data-tos="strategy"] select') as HTMLSelectElement).value;

  it("is chosen by its label, among names, beginning at what is in force", () => {
    on.show({ strategy: "allreduce (of parameters)" });
    const select = on.find('[data-tos="strategy"] select') as HTMLSelectElement;
    expect(select.labels[0].textContent).toBe("Strategy");
    expect([...select.options].slice(0, 2).map(({ value }) => value)).toEqual(["ps", "allreduce"]);
    expect(select.value).toBe("allreduce");
    const button = on.find('[data-tos="strategy"] button');
    expect(button.getAttribute("aria-label")).toBe("Swap: Strategy");
    expect(button.getAttribute("aria-describedby")).toBe(
      on.find('[data-tos="strategy"] .tos-note').id,
    );
  });

  it("takes forms away that it does not know, and brings them back where they were", () => {
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

  it("keeps what was asked while the forms change", () => {
    on.show({ strategy: "ps", actions });
    on.find('[data-tos="strategy"] button').click();
    on.controls.answer(1, answers["swap strategy"]);
    expect(on.noteOf("strategy")).toBe("asked; applies at the end of the epoch");
    on.show({ strategy: "allreduce (of gradients)", actions: together }, [
      entered({ command: "swap strategy", detail: "allreduce", stage: "in force" }),
    ]);
    expect(on.noteOf("strategy")).toBe("in force (allreduce)");
  });
});

describe("what cannot be done", () => {
  it("is off and says why", () => {
    on.show();
    expect(unavailable(able("stopping"), TOGGLE)).toBe("the run is stopping");
    expect(unavailable(able("paused"), TOGGLE)).toBe("");
    on.show({ has_learning_rate: false });
    expect(on.noteOf("learning-rate")).toContain("not a variable");
  });

  it.each(["finished", "stopped", "failed"])("is everything once a run has %s", (state) => {
    on.show({ state });
    expect((on.find("fieldset") as HTMLFieldSetElement).disabled).toBe(true);
    expect(on.controls.element.textContent).toContain("nothing to steer");
  });
});

describe("a run that does not obey every command", () => {
  it("has no controls for the others", () => {
    const kept = ["stop", "set"];
    on.show({ actions: actions.filter(({ name }) => kept.includes(name)) });
    const hidden = ['[data-tos="pause"]', '[data-tos="stop"]', '[data-tos="chaos"]'];
    expect(hidden.map((selector) => on.find(selector).hidden)).toEqual([true, false, true]);
    const forms = [...on.controls.element.querySelectorAll<HTMLElement>(".tos-forms > form")];
    const settings = ["sync", "sync-interval", "codec", "learning-rate"];
    expect(forms.map((form) => form.dataset.tos)).toEqual(settings);
  });

  it("has controls for commands that this view has never heard of", () => {
    const text = { name: "aim", label: "Aim", kind: "str", choices: [], optional: false } as const;
    const aim = { name: "aim at", verb: "Aim", arguments: [text] };
    on.show({ actions: [aim, { name: "shake hands", verb: "Shake hands", arguments: [] }] });
    (on.find('[data-tos="aim"] input') as HTMLInputElement).value = "high";
    on.find('[data-tos="aim"] button').click();
    on.find('[data-tos="shake-hands"] button').click();
    expect(on.sent).toEqual([
      ["aim at", { aim: "high" }],
      ["shake hands", {}],
    ]);
  });
});

it("every control has a name", () => {
  on.show();
  for (const input of on.controls.element.querySelectorAll<HTMLInputElement>("input, select")) {
    expect(input.labels?.[0].textContent).not.toBe("");
  }
  for (const button of on.controls.element.querySelectorAll("button")) {
    expect((button.getAttribute("aria-label") ?? seen(button)).length).toBeGreaterThan(3);
  }
});
