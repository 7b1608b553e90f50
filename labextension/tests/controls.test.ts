import { beforeEach, describe, expect, it } from "vitest";

import { Controls } from "../src/view/controls";
import { type CommandEntry, RunModel, type RunInfo } from "../src/view/model";
import { note, SLOW, unavailable } from "../src/view/requests";
import { Header, Status } from "../src/view/status";
import { buffers, parts, worker } from "./fakes";

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
    ["codec", "int8", "set", { codec: "int8" }],
    ["sync", "bsp", "set", { sync: "bsp" }],
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

describe("chaos", () => {
  const button = (label: string): HTMLElement =>
    find(`[data-tos="chaos"] button[aria-label="${label}"]`);

  it("is closed until somebody opens it, and says how it ends", () => {
    show();
    expect((find('[data-tos="chaos"]') as HTMLDetailsElement).open).toBe(false);
    expect(find('[data-tos="chaos"]').textContent).toContain("after 60 s");
  });

  it("slows the worker that was chosen, for a limited time", () => {
    show();
    const [who, factor] = ["select", "input"].map(
      (tag) => find(`[data-tos="chaos"] ${tag}`) as HTMLInputElement,
    );
    who.value = "worker:1";
    factor.value = "2.5";
    button("Slow the worker").click();
    expect(sent).toEqual([["chaos", { what: "slow", amount: 2.5, worker: 1, for_seconds: 60 }]]);
  });

  it("kills, and offers executors too", () => {
    show();
    (find('[data-tos="chaos"] select') as HTMLSelectElement).value = "executor:0";
    button("Kill the worker").click();
    expect(sent).toEqual([["chaos", { what: "kill", executor: "0" }]]);
  });

  it("keeps the choice while workers come and go", () => {
    show();
    const who = find('[data-tos="chaos"] select') as HTMLSelectElement;
    who.value = "worker:1";
    model.workers = [worker(0), worker(1), worker(2)];
    controls.draw(model);
    expect([...who.options].map(({ value }) => value).slice(0, 3)).toEqual([
      ...["worker:0", "worker:1", "worker:2"],
    ]);
    expect(who.value).toBe("worker:1");
    model.workers = [worker(0), worker(1, { state: "done" })];
    controls.draw(model);
    expect(who.value).toBe("worker:0");
  });

  it("can be taken back while it is on, and only then", () => {
    show();
    expect(button("Chaos off").getAttribute("aria-disabled")).toBe("true");
    button("Chaos off").click();
    expect(sent).toEqual([]);
    show({ chaos: ["partition 1: 5 times slower"] });
    expect(button("Chaos off").getAttribute("aria-disabled")).toBe("false");
    button("Chaos off").click();
    expect(sent).toEqual([["chaos", { what: "off" }]]);
  });

  it("has a note on what became of it", () => {
    show();
    button("Kill the worker").click();
    controls.answer(1, { ok: false, text: "Spark does not try again." });
    expect(find('[data-tos="chaos"] .tos-note').textContent).toBe(
      "refused: Spark does not try again.",
    );
    const entry = { time: 1, command: "chaos", detail: "partition 1: killed", stage: "asked" };
    show({}, [entry as CommandEntry]);
    expect(find('[data-tos="chaos"] .tos-note').textContent).toBe(
      "asked (partition 1: killed); applies at each worker's next milestone",
    );
  });

  it("is of no use once the run stops", () => {
    show({ state: "stopping", chaos: ["partition 1: 5 times slower"] });
    for (const name of ["Slow the worker", "Kill the worker", "Chaos off"]) {
      expect(button(name).getAttribute("title")).toBe("the run is stopping");
      button(name).click();
    }
    expect(sent).toEqual([]);
  });

  it("keeps single keys from the notebook", () => {
    let heard = 0;
    document.body.addEventListener("keydown", () => (heard += 1), { once: true });
    find('[data-tos="chaos"] input').dispatchEvent(
      new KeyboardEvent("keydown", { key: "d", bubbles: true }),
    );
    expect(heard).toBe(0);
  });

  it("stands in the header, and is spoken, while it is on", () => {
    const header = new Header();
    const badge = header.element.querySelector<HTMLElement>('[data-tos="chaos-badge"]');
    const rule = "partition 1: 5 times slower";
    const drawn = (run: Partial<RunInfo>): string => {
      show(run);
      header.draw(model);
      return badge?.hidden ? "hidden" : (badge?.textContent ?? "");
    };
    expect(drawn({})).toBe("hidden");
    expect(drawn({ chaos: [rule] })).toBe(`⚠ Chaos is on: ${rule}`);
    const status = new Status();
    status.draw(model, "", 0);
    expect(status.element.textContent).toContain("chaos is on");
    expect(drawn({ chaos: [rule], state: "finished" })).toBe("hidden");
    status.draw(model, "", 0);
    expect(status.element.textContent).not.toContain("chaos");
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
