import { nullTranslator } from "@jupyterlab/translation";
import { beforeEach, expect, it, vi } from "vitest";

import { Section } from "../../src/lab/panel-section";
import { FakeKernel, row } from "./panel-fakes";
import type { Links } from "../../src/view/workers";

vi.mock("@jupyterlab/apputils", () => ({ Notification: {} }));

const context = {
  trans: nullTranslator.load("tos_notebook"),
  openRun: vi.fn(),
  openCluster: vi.fn(),
  openDocument: vi.fn(),
  compare: vi.fn(),
  sparkUi: (url: string) => Promise.resolve(url),
};
let kernel: FakeKernel;
let section: Section;

function find(selector: string): HTMLElement {
  const found = section.element.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`Expected ${selector}.`);
  return found;
}

beforeEach(() => {
  kernel = new FakeKernel();
  kernel.tell([row(1)]);
  section = new Section(kernel, context);
  section.draw();
});

it("a kernel's name leads to its notebook", () => {
  find("h2 button").click();
  expect(context.openDocument).toHaveBeenCalledExactlyOnceWith(kernel);
});

it("a kernel whose notebook is closed says so, and can be steered", () => {
  kernel.context = null;
  section.draw();
  expect(find(".tos-lab-notice").textContent).toContain("is closed; the kernel continues");
  expect(find("[data-tos=pause]").closest("[hidden]")).toBeNull();
});

it("a run shows its busiest link, who was lost and what waits for the epoch, until it ends", () => {
  const links: Links = { rates: [[0, -1, 12_300_000]], more: 4 };
  const told = { links, lost: ["Partition 1 lost its worker."], pending: ["Swap waits."] };
  kernel.tell([row(1, told)]);
  section.draw();
  expect(find("li[data-state]").textContent).toMatch(
    /busiest link 0 → driver, 12.3 MB\/s.*Partition 1 lost its worker.\nSwap waits\./,
  );
  kernel.tell([row(1, { ...told, state: "finished" })]);
  section.draw();
  expect(find("li[data-state]").textContent).not.toMatch(/busiest|lost its|Swap/);
});

it("a run shows the latest evaluation, and what it waits for", () => {
  const waits = ["Run 3 holds both slots."];
  kernel.tell([row(1, { state: "starting", waits, validation: { accuracy: 0.9 } })]);
  section.draw();
  expect(find("li[data-state]").textContent).toMatch(
    /◔ queued.*validation accuracy 0.9.*Run 3 holds both slots/,
  );
});

it("runs that are checked are compared, and a hidden one is not shown", () => {
  kernel.tell([row(1), row(2), row(3, { hidden: true })]);
  section.draw();
  document.body.append(section.element);
  const compare = find(".tos-lab-compare");
  const choices = [...section.element.querySelectorAll<HTMLElement>("[type=checkbox]")];
  expect(choices).toHaveLength(2);
  choices[0].click();
  expect(compare.hidden).toBe(true);
  choices[1].click();
  expect([compare.hidden, compare.textContent]).toEqual([false, "⇄ Compare 2 runs"]);
  compare.click();
  expect(context.compare).toHaveBeenCalledExactlyOnceWith(kernel, [row(1), row(2)]);
  kernel.context = null;
  section.draw();
  expect(compare.hidden).toBe(true);
  section.element.remove();
});
