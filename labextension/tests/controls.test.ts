import { describe, expect, it, vi } from "vitest";

import { FADES } from "../src/view/feedback";
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
  it("is sent, answered, asked, and then in force, which fades", () => {
    on.show();
    on.find('[data-tos="pause"]').click();
    expect(on.sent).toEqual([["pause", {}]]);
    expect(on.told).toBe("sent: pause");
    on.controls.answer(1, answers.pause);
    expect(on.told).toBe("asked: pause; applies at each worker's next milestone");
    on.show({ state: "paused" }, [sentByKernel("pause", "asked")]);
    expect(on.told).toBe("asked: pause; applies at each worker's next milestone");
    on.show({ state: "paused", elapsed: 12, epoch: 2 }, [sentByKernel("pause", "in force")]);
    expect(on.told).toBe("in force: pause, since\u00a00:12\u00a0(epoch\u00a02)");
    on.time += FADES + 1;
    on.controls.drawNotes();
    expect(on.told).toBe("");
  });

  it("is told with what was applied by the same click", () => {
    on.show(able("running"));
    on.type("combiner", "easgd");
    on.type("learning-rate", "0.01");
    on.apply();
    expect(on.told).toMatch(/^sent: combiner easgd, learning rate 0.01/);
    on.controls.answer(1, answers.pause);
    on.controls.answer(2, answers.pause);
    const both = (stage: "asked" | "in force"): CommandEntry[] => [
      entered({
        time: 1,
        command: "swap combiner",
        changes: { combiner: "EASGD(alpha=None)" },
        stage,
      }),
      entered({ time: 1.1, command: "set", changes: { learning_rate: "0.01" }, stage }),
    ];
    on.show(able("running"), both("asked"));
    expect(on.told).toMatch(/^asked: Combiner EASGD, Learning rate 0.01; applies/);
    on.show({ ...able("running"), elapsed: 28, epoch: 152 }, both("in force"));
    const since = "since\u00a00:28\u00a0(epoch\u00a0152)";
    expect(on.told).toBe(`in force: Combiner EASGD, Learning rate 0.01, ${since}`);
  });

  it("without an answer says that it waits for the running cell", () => {
    on.show();
    on.find('[data-tos="pause"]').click();
    on.time = SLOW + 1;
    on.controls.drawNotes();
    expect(on.told).toBe("sent: pause; waits for the running cell");
    on.find('[data-tos="pause"]').click();
    expect(on.sent).toHaveLength(1);
  });

  it("that is refused says why, in the line and under its field, until another is asked", () => {
    on.show();
    on.type("combiner", "easgd");
    on.apply();
    on.controls.answer(1, answers["what is no command"]);
    for (const text of [on.told, on.noteOf("combiner")]) {
      expect(text).toMatch(/^refused: Expected one of .*explode/);
    }
    expect(on.find(".tos-told").dataset.kind).toBe("refused");
    on.time += 2 * FADES;
    on.controls.drawNotes();
    expect(on.told).toContain("refused");
    on.find('[data-tos="pause"]').click();
    expect(on.told).toBe("sent: pause");
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
    [
      "chaos",
      "chaos",
      "asked (partition 1: 5 times slower); applies at each worker's next milestone",
    ],
  ])("of another view shows at %s when it is of %s", (name, command, expected) => {
    on.show({}, [sentByKernel(command, "asked")]);
    expect(on.noteOf(name)).toBe(expected);
  });

  it("that a callback sends again and again is not told each time", () => {
    on.show();
    const changes = { learning_rate: "0.01" };
    const entry = entered({ time: 3, stage: "asked", changes, series: "callbacks=" });
    on.show({}, [entry]);
    expect(on.told).toBe("");
    on.show({}, [{ ...entry, stage: "in force" }]);
    expect(on.told).toBe("");
  });

  it("of another view is told with the labels of its settings", () => {
    on.show({}, [sentByKernel("set", "asked")]);
    expect(on.told).toBe(
      "asked: Learning rate 0.01, Sync mode bsp; applies at each worker's next milestone",
    );
  });

  it("that came before the view says no more that it is in force", () => {
    on.show({}, [sentByKernel("pause", "in force")]);
    expect(on.told).toBe("");
  });

  it("does not take an older command for its own", () => {
    const request = { sent: 0, before: 1, answer: answers.unpause };
    expect(note(TOGGLE, request, [entered({ command: "pause" })], 0)).toBe(
      "asked; applies at once",
    );
  });
});

describe("the drawer", () => {
  const steer = (): HTMLElement => on.find('[data-tos="steer"]');

  it("comes into sight whole when a person opens it: what applies the changes is its last line", () => {
    on.show();
    const brought = vi.spyOn(on.controls.drawer.element, "scrollIntoView");
    steer().click();
    expect(brought).toHaveBeenCalledWith({ block: "nearest" });
    steer().click();
    on.controls.show();
    // The user has not asked for that at this place.
    expect(brought).toHaveBeenCalledTimes(1);
  });

  it("opens at its first field, and Escape returns to its button", () => {
    on.show();
    expect(on.controls.drawer.isOpen).toBe(false);
    steer().click();
    expect(on.controls.drawer.element.hidden).toBe(false);
    expect(steer().getAttribute("aria-expanded")).toBe("true");
    expect(on.controls.drawer.element.contains(document.activeElement)).toBe(true);
    document.activeElement?.dispatchEvent(
      new KeyboardEvent("keydown", { key: "Escape", bubbles: true }),
    );
    expect(on.controls.drawer.isOpen).toBe(false);
    expect(document.activeElement).toBe(steer());
  });

  it("is open again where it was left open and there is room beside the charts", () => {
    on.show();
    on.controls.restore(true);
    expect(on.controls.drawer.isOpen).toBe(false);
    steer().click();
    on.controls.drawer.element.hidden = true;
    on.controls.restore(false);
    expect(on.controls.drawer.isOpen).toBe(false);
    on.controls.restore(true);
    expect(on.controls.drawer.isOpen).toBe(true);
  });

  it("opens by itself where that was asked for before there was a run", () => {
    on.controls.show();
    expect(on.controls.drawer.isOpen).toBe(false);
    on.show();
    expect(on.controls.drawer.isOpen).toBe(true);
  });

  it("closes when the run ends", () => {
    on.show();
    steer().click();
    on.show({ state: "finished" });
    expect(on.controls.drawer.isOpen).toBe(false);
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
    expect(on.controls.buttons.hidden).toBe(true);
    for (const fieldset of on.element.querySelectorAll("fieldset")) {
      expect(fieldset.disabled).toBe(true);
    }
  });
});

describe("a run that does not obey every command", () => {
  it("has no controls for the others", () => {
    const kept = ["stop", "set"];
    on.show({ actions: actions.filter(({ name }) => kept.includes(name)) });
    const hidden = ['[data-tos="pause"]', '[data-tos="stop"]', '[data-tos="chaos"]'];
    expect(hidden.map((selector) => on.find(selector).hidden)).toEqual([true, false, true]);
    const rows = [...on.element.querySelectorAll<HTMLElement>(".tos-forms > *")];
    const settings = ["sync", "sync-interval", "codec", "learning-rate"];
    expect(rows.map((row) => row.dataset.tos)).toEqual(settings);
  });

  it("has controls for commands that this view has never heard of", () => {
    const text = { name: "aim", label: "Aim", kind: "str", choices: [], optional: false } as const;
    const aim = { name: "aim at", verb: "Aim", arguments: [text] };
    on.show({ actions: [aim, { name: "shake hands", verb: "Shake hands", arguments: [] }] });
    on.type("aim", "high");
    on.apply();
    on.find('[data-tos="shake-hands"]').click();
    expect(on.sent).toEqual([
      ["aim at", { aim: "high" }],
      ["shake hands", {}],
    ]);
  });
});

describe("notices", () => {
  const noted = (): HTMLElement => on.find('[data-tos="waits"]');

  it("stand in the same line, and make way for what was asked", () => {
    const waits = ["The run waits for partition 3.", "And for partition 4."];
    on.show({ waits });
    expect(noted().textContent).toBe("◔ The run waits for partition 3. (1 more)");
    expect(noted().title).toContain("And for partition 4.");
    // It stays where the rest is cut.
    expect(noted().lastElementChild?.textContent).toBe(" (1 more)");
    on.find('[data-tos="pause"]').click();
    expect([noted().hidden, on.told]).toEqual([true, "sent: pause"]);
  });

  it("of the connection come before all others", () => {
    on.show({ waits: ["It waits."] });
    on.controls.tell("The kernel does not answer.");
    expect([noted().hidden, on.told]).toEqual([true, "The kernel does not answer."]);
  });
});

it("every control has a name", () => {
  on.show();
  for (const input of on.element.querySelectorAll<HTMLInputElement>("input, select")) {
    expect(input.labels?.[0].textContent).not.toBe("");
  }
  for (const button of on.element.querySelectorAll("button")) {
    const name = button.getAttribute("aria-label") ?? (seen(button) || button.textContent);
    expect(name.length).toBeGreaterThan(3);
  }
  expect(vi.getTimerCount()).toBe(0);
});
