import { nullTranslator } from "@jupyterlab/translation";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { actions, pack } from "../demo/kernel";
import { describe as explain } from "../src/view/lanes";
import { layOut } from "../src/view/lanes-layout";
import { type Parts, RunModel } from "../src/view/model";
import { note, SLOW, TOGGLE, unavailable } from "../src/view/requests";
import { RunView, SILENCE } from "../src/view/run-view";
import { setTranslation, t, tn, type Translation } from "../src/view/text";
import { browser, buffers, entered, FakeChannel, parts, worker } from "./fakes";

vi.mock("uplot", () => import("./fake-uplot"));

/** A language without Latin letters: whatever has some was not translated. */
const UNREADABLE: Translation = {
  __: (text, ...values) => nullTranslator.load("").__(text.replace(/[A-Za-z]/g, "ж"), ...values),
  _n: (one, many, n, ...values) => UNREADABLE.__(n === 1 ? one : many, n, ...values),
};

beforeEach(() => {
  setTranslation(UNREADABLE);
});

afterEach(() => {
  setTranslation(null);
});

describe("texts", () => {
  it.each([null, nullTranslator.load("tos_notebook")])("have their values put in", (chosen) => {
    setTranslation(chosen);
    expect(t("%2 of %1, %2", "x", 0.5)).toBe("0.5 of x, 0.5");
    expect(tn("%2: %1 warning", "%2: %1 warnings", 1, "x")).toBe("x: 1 warning");
    expect(tn("%2: %1 warning", "%2: %1 warnings", 0, "x")).toBe("x: 0 warnings");
  });

  it("of notes and explanations are translated", () => {
    const entry = entered({ command: "pause", detail: "7", stage: "asked" });
    const stages = ["asked", "in force", "refused"] as const;
    const entries = stages.flatMap((stage) => [
      { ...entry, stage },
      { ...entry, stage, detail: "" },
    ]);
    const whens = ["now", "milestone", "epoch"] as const;
    const asked = whens.map((when) => ({ ok: true, text: "", when }));
    const requests = [null, ...asked, { ok: false, text: "7" }].map((answer) => ({
      ...{ sent: 0, before: 1, answer },
    }));
    const all = [
      ...entries.map((one) => note(TOGGLE, null, [one], 0)),
      ...requests.map((request) => note(TOGGLE, request, [], SLOW + 1)),
      ...["running", "paused", "stopping", "failed", "stopped"].flatMap((state) =>
        [TOGGLE, { commands: ["set"], setting: "learning_rate" }, { commands: ["7"] }].map((ask) =>
          unavailable({ actions, state, has_learning_rate: false }, ask),
        ),
      ),
    ];
    expect(all.join("")).toContain("ж");
    expect(all.filter(untranslated)).toEqual([]);
  });

  it("that explain a lane are translated", () => {
    const model = new RunModel();
    const rows = [[0, 1, 0.5, 0.25, 0.25, 3], [1, 1, 0.5, 0, 0.25, 3]]; // prettier-ignore
    const state = { ...parts(), lanes: { length: 2 } };
    model.apply({ type: "snapshot", seq: 1, state }, buffers([], rows));
    const layout = layOut(model, 1000);
    const points = [[990, 3], [990, 25], [1, 25]] as const; // prettier-ignore
    const all = points.map(([x, y]) => explain(model, layout, x, y, 1000));
    expect(all.filter((text) => text === "" || untranslated(text))).toEqual([]);
  });
});

/** SI's prefixes stand for numbers. */
function untranslated(text: string): boolean {
  return /[A-Za-z]/.test(text.replace(/\d[kMG]\b/g, ""));
}

/** Whatever is seen, or heard with a screen reader. */
function readable(root: Element): string[] {
  const texts: string[] = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement, textContent } = walker.currentNode;
    if (!parentElement?.closest("[translate=no]")) texts.push(textContent ?? "");
  }
  for (const name of ["aria-label", "title", "placeholder"]) {
    for (const element of root.querySelectorAll(`[${name}]`)) {
      texts.push(element.getAttribute(name) ?? "");
    }
  }
  return texts;
}

/** Names of rules are no words, and what the kernel says of them comes as it is. */
const withoutChoices = actions.map((action) => ({
  ...action,
  arguments: action.arguments.map((one) => ({
    ...{ ...one, groups: {}, about: {} },
    choices: one.choices.length ? ["8"] : [],
  })),
}));

/** A state whose kernel says nothing in words of its own. */
function full(state: string): Parts {
  const error = { message: "7", where: "7", frames: ["7"], rest: "7" };
  const made = parts([2, 1], {
    ...{
      state,
      ...{ program: "7", model_bytes: 7 },
      combiner: "8",
      actions: withoutChoices,
      sync: "8",
      codec: "8",
      master: "9",
      chaos: ["9"],
    },
    ...{ error: state === "failed" ? error : null, has_learning_rate: state !== "failed" },
  });
  const states = ["training", "waiting", "lost", "failed", "stopped", "done"] as const;
  return {
    ...made,
    workers: states
      .concat(states)
      .map((one, i) => worker(i, { host: "7", state: one, lost: i, note: i % 2 === 0 ? "7" : "" })),
    lanes: { length: 1 },
    marks: [{ time: 1, worker: 0, kind: "lost", text: "7" }],
    commands: [
      entered({ command: "7", detail: "7" }),
      entered({ time: 2, command: "7", stage: "refused" }),
    ],
    log: (["info", "warning", "error"] as const).map((level) => ({ time: 1, level, text: "7" })),
    series: [
      ...made.series.map((head) => ({ ...head, name: "7" })),
      { name: "7", split: "validation", length: 0 },
    ],
  };
}

describe("a view", () => {
  it.each(["starting", "running", "paused", "stopping", "finished", "stopped", "failed"])(
    "of a run in state %s shows nothing that is not translated",
    (state) => {
      vi.useFakeTimers();
      const page = browser();
      const view = new RunView(new FakeChannel());
      document.body.append(view.element);
      view.start();
      expect(readable(view.element).filter(untranslated)).toEqual([]);
      const views = buffers([2, 1]);
      views.splice(1, 1, pack([], 4), pack([[0, 1, 1, 0, 0, 0]], 6));
      view.message({ type: "snapshot", seq: 1, state: full(state) }, views);
      page.frame();
      expect(view.element.textContent).toContain("ж");
      expect(readable(view.element).filter(untranslated)).toEqual([]);
      vi.advanceTimersByTime(2 * SILENCE);
      expect(readable(view.element).filter(untranslated)).toEqual([]);
      view.destroy();
      vi.useRealTimers();
      vi.unstubAllGlobals();
    },
  );
});
