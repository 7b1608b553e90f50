import { beforeEach, describe, expect, it } from "vitest";

import { Controls } from "../src/controls";
import { type CommandEntry, RunModel, type RunInfo } from "../src/model";
import { note, SLOW, unavailable } from "../src/requests";
import { buffers, parts } from "./fakes";

let sent: [string, Record<string, unknown>][] = [];
let time = 0;
let controls: Controls;
let model: RunModel;

function show(run: Partial<RunInfo> = {}, commands: CommandEntry[] = []): void {
  model.apply({ type: "snapshot", seq: 1, state: { ...parts([], run), commands } }, buffers([]));
  controls.draw(model);
}

function find(selector: string): HTMLElement {
  const element = controls.element.querySelector<HTMLElement>(selector);
  if (!element) throw new Error(`Expected ${selector}.`);
  return element;
}

function noteOf(name: string): string {
  const element = find(`[data-tos="${name}"]`);
  return element.closest(".tos-control")?.querySelector(".tos-note")?.textContent ?? "none";
}

beforeEach(() => {
  sent = [];
  time = 0;
  model = new RunModel();
  controls = new Controls(
    (...command) => sent.push(command),
    () => time,
  );
  document.body.replaceChildren(controls.element);
});

describe("a command", () => {
  it("is sent, answered, asked, and then in force", () => {
    show();
    find('[data-tos="pause"]').click();
    expect(sent).toEqual([["pause", {}]]);
    expect(noteOf("pause")).toBe("sent");
    controls.answer(1, { ok: true, text: "at each worker's next milestone" });
    expect(noteOf("pause")).toBe("asked; applies at each worker's next milestone");
    const entry: CommandEntry = {
      ...{ time: 3, command: "pause", detail: "at each worker's next milestone", stage: "asked" },
    };
    show({ state: "paused" }, [entry]);
    expect(noteOf("pause")).toBe("asked; applies at each worker's next milestone");
    show({ state: "paused" }, [{ ...entry, detail: "", stage: "in force" }]);
    expect(noteOf("pause")).toBe("in force");
  });

  it("without an answer says that it waits for the running cell", () => {
    show();
    find('[data-tos="stop"]').click();
    time = SLOW + 1;
    controls.drawNotes();
    expect(noteOf("stop")).toBe("sent; waits for the running cell");
    find('[data-tos="stop"]').click();
    expect(sent).toHaveLength(1);
  });

  it("that is refused says why", () => {
    show();
    find('[data-tos="combiner"] button').click();
    controls.answer(1, { ok: false, text: "no such combiner." });
    expect(noteOf("combiner")).toBe("refused: no such combiner.");
  });

  it("of another view shows here too", () => {
    const entry = { time: 1, command: "set", detail: "sync_interval=5", stage: "asked" as const };
    show({}, [entry]);
    expect(noteOf("sync-interval")).toContain("asked (sync_interval=5); applies at each");
    expect(noteOf("learning-rate")).toBe("");
  });

  it("makes way for the one that undid it", () => {
    const pause = { time: 1, command: "pause", detail: "", stage: "in force" as const };
    const resume = { ...pause, time: 2, command: "resume" };
    expect(note("pause", null, [pause, resume], 0)).toBe("");
    expect(note("resume", null, [pause, resume], 0)).toBe("in force");
    const again = { sent: 0, before: 2, answer: { ok: true, text: "soon" } };
    expect(note("pause", again, [pause, resume], 0)).toBe("asked; applies soon");
  });

  it("says once when it applies", () => {
    const detail = "8 partitions, at the end of the epoch";
    const entry = { time: 1, command: "repartition", detail, stage: "asked" as const };
    expect(note("repartition", null, [entry], 0)).toBe(
      "asked (8 partitions); applies at the end of the epoch",
    );
  });

  it("does not take an older command for its own", () => {
    const old = { time: 1, command: "pause", detail: "", stage: "in force" as const };
    const request = { sent: 0, before: 1, answer: { ok: true, text: "at once" } };
    expect(note("pause", request, [old], 0)).toBe("asked; applies at once");
  });
});

describe("fields", () => {
  it.each([
    ["repartition", "8", "repartition", { partitions: 8 }],
    ["combiner", "easgd", "swap combiner", { combiner: "easgd" }],
    ["learning-rate", "0.01", "set", { learning_rate: 0.01 }],
    ["sync-interval", "20", "set", { sync_interval: 20 }],
  ])("%s sends its value", (name, value, command, expected) => {
    show();
    const input = find(`[data-tos="${name}"] :is(input, select)`) as HTMLInputElement;
    input.value = value;
    input.dispatchEvent(new Event("input"));
    find(`[data-tos="${name}"] button`).click();
    expect(sent).toEqual([[command, expected]]);
  });

  it("show what is in force, but not over what is being typed", () => {
    show();
    const input = find('[data-tos="repartition"] input') as HTMLInputElement;
    expect(input.value).toBe("2");
    input.value = "64";
    input.dispatchEvent(new Event("input"));
    show({ partitions: 4 });
    expect(input.value).toBe("64");
  });

  it("keep single keys from the notebook", () => {
    let heard = 0;
    document.body.addEventListener("keydown", () => (heard += 1), { once: true });
    find('[data-tos="repartition"] input').dispatchEvent(
      new KeyboardEvent("keydown", { key: "d", bubbles: true }),
    );
    expect(heard).toBe(0);
  });
});

describe("what cannot be done", () => {
  it("is off and says why", () => {
    show();
    expect(find('[data-tos="resume"]').getAttribute("aria-disabled")).toBe("true");
    find('[data-tos="resume"]').click();
    expect(sent).toEqual([]);
    expect(unavailable("pause", "paused", true)).toContain("paused already");
    expect(unavailable("resume", "paused", true)).toBe("");
    show({ has_learning_rate: false });
    expect(noteOf("learning-rate")).toContain("no variable");
  });

  it.each(["finished", "stopped", "failed"])("is everything once a run has %s", (state) => {
    show({ state });
    expect((find("fieldset") as HTMLFieldSetElement).disabled).toBe(true);
    expect(controls.element.textContent).toContain("nothing to steer");
  });
});

it("every control has a name", () => {
  show();
  for (const input of controls.element.querySelectorAll<HTMLInputElement>("input, select")) {
    expect(input.labels?.[0].textContent).not.toBe("");
  }
  for (const button of controls.element.querySelectorAll("button")) {
    expect((button.getAttribute("aria-label") ?? button.textContent).length).toBeGreaterThan(3);
  }
});
