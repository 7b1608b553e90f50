/** An output of a run, when its page is loaded again. */

import { Widget } from "@lumino/widgets";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { KernelLink } from "../../src/lab/link";
import { PageMemory } from "../../src/lab/page-memory";
import { RunOutput } from "../../src/lab/run-output";
import { browser, buffers, parts } from "../fakes";
import { useFixture } from "./link-fixture";
import { rendermime, Saved, settings, shown } from "./output-fixture";
import { settle } from "./session-fakes";

vi.mock("@jupyterlab/rendermime", async () => ({
  MimeModel: (await import("./output-fixture")).FakeMimeModel,
}));
vi.mock("uplot", () => import("../fake-uplot"));

const on = useFixture();
let page: ReturnType<typeof browser>;
let output: RunOutput;

function create(): void {
  output = new RunOutput(() => on.it.link, rendermime as never, settings as never);
  Widget.attach(output, document.body);
}

async function render(): Promise<void> {
  void output.renderModel(shown("r3"));
  await settle();
}

/** Let the kernel answer the last question for a snapshot. */
function tell(losses: number[]): void {
  const { kernel } = on.it;
  const view = kernel.said("watch").at(-1)?.view;
  kernel.say({ type: "snapshot", seq: 8, view, state: parts(losses) }, buffers(losses));
}

beforeEach(() => {
  page = browser();
  Saved.all.length = 0;
  create();
});

afterEach(async () => {
  output.dispose();
  sessionStorage.clear();
  await settle();
});

/** The page goes, and another one comes for the same kernel. */
async function reload(met = false): Promise<void> {
  await on.it.open();
  await render();
  tell([3, 2]);
  window.dispatchEvent(new Event("pagehide"));
  output.dispose();
  on.it.link.detach();
  on.it.link = new KernelLink("work/first.ipynb", new PageMemory());
  create();
  if (!met) on.it.kernel.hold();
  await on.it.open();
  await render();
}

function milestones(): unknown {
  return output.node.querySelector<HTMLElement>(".tos-run")?.dataset.milestones;
}

it("an output shows what it had shown until the kernel tells more", async () => {
  await reload();
  expect(milestones()).toBe("2");
  expect(Saved.all).toEqual([]);
  const view = output.node.firstElementChild;
  on.it.kernel.release();
  await settle();
  tell([3, 2, 1]);
  expect(milestones()).toBe("3");
  expect(output.node.firstElementChild).toBe(view);
});

it("an output does so, too, where the kernel is met before it is drawn", async () => {
  await reload(true);
  expect(milestones()).toBe("2");
  tell([3, 2, 1]);
  expect(milestones()).toBe("3");
});

it("a command waits until the kernel can hear it", async () => {
  await reload();
  page.frame();
  output.node.querySelector<HTMLButtonElement>('[data-tos="pause"]')?.click();
  expect(on.it.kernel.said("command")).toEqual([]);
  on.it.kernel.release();
  await settle();
  expect(on.it.kernel.said("command")).toMatchObject([{ run: "r3", command: "pause" }]);
  on.it.kernel.answer(on.it.kernel.said("command")[0].id, { ok: true, when: "now" });
  await settle();
  expect(output.node.textContent).toContain("asked: pause; applies at once");
});

it("an output shows what was saved once the kernel turns out not to know the run", async () => {
  await reload();
  on.it.kernel.runs = [];
  on.it.kernel.release();
  await settle();
  expect(milestones()).toBeUndefined();
  expect(output.node.textContent).toMatch(/^✕ lost.*text.html$/);
});

it("nothing is kept of what nobody shows any more", async () => {
  await reload();
  output.dispose();
  window.dispatchEvent(new Event("pagehide"));
  expect(sessionStorage).toHaveLength(0);
});
