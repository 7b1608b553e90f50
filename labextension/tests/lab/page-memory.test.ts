import { afterEach, expect, it, vi } from "vitest";

import { PageMemory, recall, remember } from "../../src/lab/page-memory";
import type { Snapshot } from "../../src/view/model";
import { buffers, parts } from "../fakes";

const forget: (() => void)[] = [];

function snapshot(losses: number[]): Snapshot {
  const message = { type: "snapshot", seq: 4, state: parts(losses) } as const;
  return { message, buffers: buffers(losses) };
}

/** Show a run from now on. */
function show(take: () => Snapshot | null): void {
  forget.push(new PageMemory().keep("r3", take));
}

/** Load the page again. */
function reload(): PageMemory {
  window.dispatchEvent(new Event("pagehide"));
  return new PageMemory();
}

afterEach(() => {
  for (const one of forget.splice(0)) one();
  vi.restoreAllMocks();
  sessionStorage.clear();
});

it("a page knows what the one before it showed, to the bit", () => {
  const shown = snapshot([0.1, -2.5e-8, 255]);
  show(() => shown);
  const memory = reload();
  expect(memory.recall("r3")?.message.state).toEqual(shown.message.state);
  expect(memory.recall("r3")?.buffers).toEqual(shown.buffers);
  expect(memory.recall("r9")).toBeNull();
});

it("what it knows is late for every delta", () => {
  show(() => snapshot([1]));
  expect(reload().recall("r3")?.message.seq).toBe(Number.MAX_SAFE_INTEGER);
});

it("it knows nothing of the page before that", () => {
  show(() => snapshot([1]));
  reload();
  forget.pop()?.();
  expect(reload().recall("r3")).toBeNull();
});

it("it knows no more of a run of which the kernel has told since", () => {
  show(() => snapshot([1]));
  const memory = reload();
  memory.forget("r3");
  expect(memory.recall("r3")).toBeNull();
});

it("nothing is kept of a view that was told nothing", () => {
  show(() => null);
  expect(reload().recall("r3")).toBeNull();
  expect(sessionStorage).toHaveLength(0);
});

it("a browser without room for it keeps nothing", () => {
  remember("name", ["old"]);
  vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
    throw new DOMException("full", "QuotaExceededError");
  });
  remember("name", ["new"]);
  expect(recall("name")).toBeNull();
});

it("what cannot be read was not remembered", () => {
  sessionStorage.setItem("name", "{half");
  expect(recall("name")).toBeNull();
});
