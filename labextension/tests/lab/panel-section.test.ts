import { nullTranslator } from "@jupyterlab/translation";
import { beforeEach, expect, it, vi } from "vitest";

import { Section } from "../../src/lab/panel-section";
import { FakeKernel, row } from "./panel-fakes";

vi.mock("@jupyterlab/apputils", () => ({ Notification: {} }));

const context = {
  trans: nullTranslator.load("tos_notebook"),
  openRun: vi.fn(),
  openDocument: vi.fn(),
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

it("a run shows the latest evaluation, and what it waits for", () => {
  const waits = ["Run 3 holds both slots."];
  kernel.tell([row(1, { state: "starting", waits, validation: { accuracy: 0.9 } })]);
  section.draw();
  expect(find("li[data-state]").textContent).toMatch(
    /⏳ waiting.*validation accuracy 0.9.*Run 3 holds both slots/,
  );
});
