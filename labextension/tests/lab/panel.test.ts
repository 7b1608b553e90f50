import { nullTranslator } from "@jupyterlab/translation";
import { Panel as LuminoPanel, Widget } from "@lumino/widgets";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Panel } from "../../src/lab/panel";
import { SETTLE } from "../../src/view/buttons";
import { browser } from "../fakes";
import { FakeKernel, FakeKernels, row } from "./panel-fakes";

const error = vi.hoisted(() => vi.fn());
vi.mock("@jupyterlab/apputils", () => ({ Notification: { error } }));
vi.mock("../../src/lab/icon", () => ({ tosIcon: undefined }));

const trans = nullTranslator.load("tos_notebook");
const openRun = vi.fn();
const onSight = vi.fn();
let page: ReturnType<typeof browser>;
let kernel: FakeKernel;
let kernels: FakeKernels;
let panel: Panel;

function refresh(): void {
  kernels.changed.emit();
  page.frame();
}

function all(selector: string): HTMLElement[] {
  return [...panel.node.querySelectorAll<HTMLElement>(selector)];
}

function find(selector: string): HTMLElement {
  const [element] = all(selector);
  if (!(element instanceof HTMLElement)) throw new Error(`Expected ${selector}.`);
  return element;
}

function settled(): Promise<unknown> {
  return vi.advanceTimersByTimeAsync(0);
}

beforeEach(() => {
  vi.useFakeTimers();
  page = browser();
  kernel = new FakeKernel();
  kernels = new FakeKernels([kernel]);
  const sparkUi = (url: string) => Promise.resolve(`${url}/jobs/`);
  panel = new Panel(
    kernels,
    { trans, openRun, openCluster: vi.fn(), openDocument: vi.fn(), compare: vi.fn(), sparkUi },
    onSight,
  );
  Widget.attach(panel, document.body);
  refresh();
});

afterEach(() => {
  panel.dispose();
  vi.clearAllMocks();
  vi.useRealTimers();
});

describe("a kernel", () => {
  it("has its notebook's name, its path, and its cluster in short", async () => {
    kernel.tell([]);
    refresh();
    await settled();
    const title = find("section h2 button");
    expect([title.textContent, title.title]).toEqual(["first.ipynb", "work/first.ipynb"]);
    expect(find("section").getAttribute("aria-labelledby")).toBe(title.id);
    expect(all(".tos-lab-facts li").map(({ textContent }) => textContent)).toEqual([
      ...["spark://head:7077", "8 executors", "32 cores", "Spark UI"],
    ]);
    expect(find(".tos-lab-facts a").getAttribute("href")).toBe("http://10.0.0.1:4040/jobs/");
  });

  it("is not shown while it has not loaded us; then the panel says how to begin", () => {
    kernel.state = "absent";
    refresh();
    expect(all("section")).toEqual([]);
    const beginning = find(".tos-lab-beginning");
    expect(beginning.hidden).toBe(false);
    expect([...beginning.querySelectorAll("code")].map(({ textContent }) => textContent)).toEqual([
      ...["%load_ext tos_notebook", "%tos_connect", "%%tos_train"],
    ]);
    kernel.state = "open";
    refresh();
    expect(beginning.hidden).toBe(true);
    expect(all("section")).toHaveLength(1);
  });

  it("says what comes next", () => {
    const notice = find(".tos-lab-notice");
    expect(notice.textContent).toBe("Not connected to Spark; %tos_connect does that.");
    kernel.tell([]);
    refresh();
    expect(notice.textContent).toContain("begins with %%tos_train");
    kernel.tell([row(1)]);
    refresh();
    expect(notice.hidden).toBe(true);
    kernel.state = "opening";
    refresh();
    expect(notice.textContent).toBe("Connecting to the kernel …");
  });

  it("that was restarted keeps its rows and says so", () => {
    kernel.tell([row(1, { state: "finished" }), row(2, { waits: ["Waiting."] })]);
    kernel.state = "lost";
    refresh();
    expect(all(".tos-lab-error").every(({ textContent }) => textContent === "")).toBe(true);
    expect(find(".tos-lab-notice").textContent).toContain("The kernel was restarted");
    expect(all(".tos-lab-state").map(({ textContent }) => textContent)).toEqual([
      ...["✕ lost", "✓ finished"],
    ]);
    expect(all(".tos-lab-actions").every(({ hidden }) => hidden)).toBe(true);
    expect(find(".tos-lab-facts a").hidden).toBe(true);
  });

  it("that is closed goes, the others stay where they are", () => {
    const second = new FakeKernel("second.ipynb");
    kernels.all = [kernel, second];
    refresh();
    const [, kept] = all("section");
    kernels.all = [second];
    refresh();
    expect(all("section")).toEqual([kept]);
  });
});

describe("a run", () => {
  it("is told in a row, the newest first", () => {
    kernel.tell([row(1, { state: "paused" }), row(2, { samples_per_second: null, loss: null })]);
    refresh();
    expect(all(".tos-lab-open").map(({ textContent }) => textContent)).toEqual(["Run 2", "Run 1"]);
    const [newest, oldest] = all(".tos-lab-runs > li");
    expect(newest.querySelector(".tos-lab-state")?.textContent).toBe("▶ running");
    expect(oldest.querySelector(".tos-lab-state")?.textContent).toBe("‖ paused");
    const numbers = (element: HTMLElement): string[] =>
      [...element.querySelectorAll(".tos-lab-numbers span")].map((span) => span.textContent);
    expect(numbers(oldest)).toEqual(["epoch 4/10", "~10 s", "loss 0.31", "12.3k samples/s"]);
    expect(numbers(newest)).toEqual(["epoch 4/10", "~10 s"]);
    expect(newest.querySelector("svg")?.getAttribute("aria-label")).toBe(
      "Loss: began at 2.3, now 0.31, lowest 0.31",
    );
  });

  it("that failed says why, as text", () => {
    kernel.tell([row(1, { state: "failed", error: "<b>no</b>" })]);
    refresh();
    expect(find(".tos-lab-state").textContent).toBe("✕ failed");
    expect(find(".tos-lab-error").textContent).toBe("<b>no</b>");
  });

  it("is opened by its row's button", () => {
    kernel.tell([row(1)]);
    refresh();
    find(".tos-lab-open").click();
    expect(openRun).toHaveBeenCalledExactlyOnceWith(kernel, "r1");
  });

  it("can be paused, unpaused and stopped, by buttons that say so", () => {
    kernel.tell([row(1)]);
    refresh();
    const [pause, stop] = [find('[data-tos="pause"]'), find('[data-tos="stop"]')];
    expect(pause.getAttribute("aria-label")).toBe("Pause run 1");
    expect(stop.getAttribute("aria-label")).toBe("Stop run 1 and keep its weights");
    pause.click();
    expect(kernel.command).toHaveBeenLastCalledWith("r1", "pause");
    kernel.tell([row(1, { state: "paused" })]);
    refresh();
    expect(pause.getAttribute("aria-label")).toBe("Unpause run 1");
    pause.click();
    expect(kernel.command).toHaveBeenLastCalledWith("r1", "unpause");
    stop.click();
    vi.advanceTimersByTime(SETTLE);
    stop.click();
    expect(kernel.command).toHaveBeenLastCalledWith("r1", "stop");
    expect(openRun).not.toHaveBeenCalled();
  });

  it("says why a command was refused, or could not be sent", async () => {
    kernel.tell([row(1)]);
    refresh();
    kernel.command.mockResolvedValueOnce({ ok: false, text: "the run is gone." });
    find('[data-tos="pause"]').click();
    kernel.command.mockRejectedValueOnce(new Error("no kernel"));
    find('[data-tos="stop"]').click();
    vi.advanceTimersByTime(SETTLE);
    find('[data-tos="stop"]').click();
    await settled();
    expect(error.mock.calls.flat().sort()).toEqual(["Error: no kernel", "the run is gone."]);
  });

  it("that is stopping takes no more commands, one that has ended can be removed", () => {
    kernel.tell([row(1, { state: "stopping" })]);
    refresh();
    expect(find('[data-tos="stop"]').getAttribute("aria-disabled")).toBe("true");
    find('[data-tos="stop"]').click();
    find('[data-tos="pause"]').click();
    expect(kernel.command).not.toHaveBeenCalled();
    kernel.tell([row(1, { state: "stopped" })]);
    refresh();
    const left = all(".tos-lab-actions button").filter(({ hidden }) => !hidden);
    expect(left.map(({ dataset }) => dataset.tos)).toEqual(["remove"]);
  });
});

describe("the focus", () => {
  it("stays when runs come and numbers change", () => {
    kernel.tell([row(1)]);
    refresh();
    const stop = find('[data-tos="stop"]');
    stop.focus();
    kernels.all = [kernel, new FakeKernel("second.ipynb")];
    kernel.tell([row(1, { loss: 0.2, state: "stopping" }), row(2)]);
    refresh();
    expect(document.activeElement).toBe(stop);
    expect(all(".tos-lab-runs > li")).toHaveLength(2);
  });

  it("goes to the row's button when the buttons of a run go", () => {
    kernel.tell([row(1)]);
    refresh();
    find('[data-tos="pause"]').focus();
    kernel.tell([row(1, { state: "finished" })]);
    refresh();
    expect(document.activeElement).toBe(find(".tos-lab-open"));
  });

  it("reaches everything: buttons and links alone, each with a name", async () => {
    kernel.tell([row(1)]);
    refresh();
    await settled();
    const clickable = all("button, a, input").filter((one) => !one.closest("[hidden]"));
    const tags = clickable.map(({ tagName }) => tagName);
    expect(tags).toEqual(["BUTTON", "A", "INPUT", "BUTTON", "BUTTON", "BUTTON"]);
    expect(clickable.every(({ tabIndex }) => tabIndex === 0)).toBe(true);
    for (const element of clickable) {
      expect((element.getAttribute("aria-label") ?? element.textContent).length).toBeGreaterThan(3);
    }
  });
});

describe("drawing", () => {
  it("happens once a frame at most, and changes only what differs", async () => {
    kernel.tell([row(1)]);
    refresh();
    const frame = vi.spyOn(globalThis, "requestAnimationFrame");
    for (let i = 0; i < 5; i++) kernels.changed.emit();
    expect(frame).toHaveBeenCalledOnce();
    await settled();
    const observer = new MutationObserver(() => undefined);
    observer.observe(panel.node, {
      ...{ attributes: true, characterData: true, childList: true, subtree: true },
    });
    page.frame();
    expect(observer.takeRecords()).toEqual([]);
    observer.disconnect();
  });

  it("waits while the panel is hidden, and makes good for it when it is shown", () => {
    panel.hide();
    kernel.tell([row(1)]);
    refresh();
    expect(all(".tos-lab-runs > li")).toHaveLength(0);
    panel.show();
    page.frame();
    expect(all(".tos-lab-runs > li")).toHaveLength(1);
  });

  it("tells whether somebody looks: messages may come less often else", () => {
    const parent = new LuminoPanel();
    parent.addWidget(panel);
    Widget.attach(parent, document.body);
    expect(onSight).toHaveBeenLastCalledWith(true);
    parent.hide();
    expect(onSight).toHaveBeenLastCalledWith(false);
    parent.show();
    expect(onSight).toHaveBeenLastCalledWith(true);
    Widget.detach(parent);
    expect(onSight).toHaveBeenLastCalledWith(false);
  });

  it("is over once the panel is disposed of", () => {
    const frame = vi.spyOn(globalThis, "requestAnimationFrame");
    panel.dispose();
    kernels.changed.emit();
    expect(frame).not.toHaveBeenCalled();
  });
});
