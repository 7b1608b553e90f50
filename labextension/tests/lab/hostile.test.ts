/** What a kernel says of its runs and its cluster is text in the panel, and leads to no script. */

import { nullTranslator } from "@jupyterlab/translation";
import { expect, it, vi } from "vitest";

import { Section } from "../../src/lab/panel-section";
import { statusText } from "../../src/lab/status-item";
import { CLUSTER, FakeKernel, row } from "./panel-fakes";

vi.mock("@jupyterlab/apputils", () => ({ Notification: {} }));

const NASTY = `"><img src=x onerror="window.hit = 1"><script>window.hit = 2</script> %1`;
const trans = nullTranslator.load("tos_notebook");

it("the panel and the status bar show hostile names and errors as they are", async () => {
  const kernel = new FakeKernel(NASTY);
  const sparkUi = (url: string) => Promise.resolve(url);
  const section = new Section(kernel, {
    trans,
    openRun: vi.fn(),
    openCluster: vi.fn(),
    openDocument: vi.fn(),
    compare: vi.fn(),
    sparkUi,
  });
  const ended = row(1, { state: "failed", validation: { [NASTY]: 0.5 }, error: NASTY });
  const validated = row(2, { validation: { [NASTY]: 0.5 }, warning: null });
  kernel.tell([ended, validated], { ...CLUSTER, master: NASTY, ui: "javascript:window.hit = 3" });
  document.body.append(section.element);
  section.draw();
  await Promise.resolve();
  expect(section.element.querySelectorAll("img, script, [onerror], [href]")).toHaveLength(0);
  expect(section.element.querySelector("a")?.hidden).toBe(true);
  expect("hit" in window).toBe(false);
  // The notebook, the master, the validation, the error.
  expect(section.element.textContent.split(NASTY)).toHaveLength(5);
  expect(statusText(ended, "failed", trans)).toContain("val 0.5");
  section.element.remove();
});
