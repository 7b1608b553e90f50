import { nullTranslator } from "@jupyterlab/translation";
import { Panel, Widget } from "@lumino/widgets";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { createRunTab, RunTab, UNSEEN } from "../../src/lab/run-tab";
import { RunView } from "../../src/view/run-view";
import { browser, buffers, parts } from "../fakes";
import { FakeKernel, row } from "./panel-fakes";

const hide = vi.hoisted(() => vi.fn());
vi.mock("@jupyterlab/apputils", () => ({
  MainAreaWidget: class {
    readonly content: unknown;
    readonly toolbar = { hide };
    constructor(options: { content: unknown }) {
      this.content = options.content;
    }
  },
}));
vi.mock("../../src/lab/icon", () => ({ tosIcon: undefined }));
vi.mock("uplot", () => import("../fake-uplot"));

const trans = nullTranslator.load("tos_notebook");
const SETTINGS = { updateSeconds: 0.2, points: 1000, axis: "epoch" as const };
let page: ReturnType<typeof browser>;
let kernel: FakeKernel;
let tab: RunTab;

function open(): void {
  tab = new RunTab(kernel, "r3", { trans, settings: SETTINGS });
  Widget.attach(tab, document.body);
}

function find(selector: string): HTMLElement {
  const element = tab.node.querySelector<HTMLElement>(selector);
  if (!element) throw new Error(`Expected ${selector}.`);
  return element;
}

function show(run = {}): void {
  kernel.opened.listener?.message({ type: "snapshot", seq: 1, state: parts([], run) }, buffers([]));
  page.frame();
}

/** What the tab says while it has nothing to show, and the view in a line of its own else. */
function notice(): string {
  const element = find(".tos-lab-notice");
  return element.hidden ? find(".tos-told").textContent : element.textContent;
}

beforeEach(() => {
  vi.useFakeTimers();
  page = browser();
  kernel = new FakeKernel();
  kernel.tell([row(3)]);
});

afterEach(() => {
  tab.dispose();
  document.body.replaceChildren();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("a run's tab", () => {
  it("holds the live view of the run, and is named after run and notebook", async () => {
    open();
    await vi.advanceTimersByTimeAsync(0);
    expect(kernel.channel).toHaveBeenCalledExactlyOnceWith("r3");
    expect(kernel.opened.hello).toHaveBeenCalledOnce();
    show();
    expect(find(".tos-run .tos-title").textContent).toBe("Run 3");
    expect(tab.title).toMatchObject({ label: "Run 3 · first.ipynb", caption: "work/first.ipynb" });
    expect(tab.node.getAttribute("aria-label")).toBe("Run 3 · first.ipynb");
    expect(notice()).toBe("");
  });

  it("stands in the main area without a toolbar", () => {
    const widget = createRunTab(kernel, "r3", { trans, settings: SETTINGS });
    tab = widget.content;
    expect(tab).toBeInstanceOf(RunTab);
    expect(hide).toHaveBeenCalledOnce();
  });

  it("gives the user's settings to the view, also when they change", () => {
    const settings = vi.spyOn(RunView.prototype, "settings");
    open();
    expect(settings).toHaveBeenLastCalledWith(expect.objectContaining({ axis: "epoch" }));
    tab.apply({ updateSeconds: 1, points: 50, axis: "time" });
    expect(settings).toHaveBeenLastCalledWith(expect.objectContaining({ points: 50 }));
    expect(kernel.opened.pace).toHaveBeenLastCalledWith(1);
  });

  it("goes on when it is dragged elsewhere", async () => {
    open();
    await vi.advanceTimersByTimeAsync(0);
    Widget.detach(tab);
    Widget.attach(tab, document.body);
    await vi.advanceTimersByTimeAsync(0);
    expect(kernel.opened.open).toHaveBeenCalledOnce();
    expect(kernel.opened.close).not.toHaveBeenCalled();
  });

  it("leaves nothing behind", () => {
    open();
    tab.dispose();
    expect(kernel.opened.close).toHaveBeenCalledOnce();
    expect(vi.getTimerCount()).toBe(0);
    kernel.opened.pace.mockClear();
    document.dispatchEvent(new Event("visibilitychange"));
    kernel.become("lost");
    expect(kernel.opened.pace).not.toHaveBeenCalled();
  });
});

describe("messages", () => {
  it("come rarely while the tab is behind another", () => {
    const parent = new Panel();
    tab = new RunTab(kernel, "r3", { trans, settings: SETTINGS });
    parent.addWidget(tab);
    parent.hide();
    Widget.attach(parent, document.body);
    expect(kernel.opened.pace).toHaveBeenLastCalledWith(UNSEEN);
    parent.show();
    expect(kernel.opened.pace).toHaveBeenLastCalledWith(0.2);
    parent.hide();
    expect(kernel.opened.pace).toHaveBeenLastCalledWith(UNSEEN);
  });

  it("come rarely while the page is", () => {
    open();
    expect(kernel.opened.pace).toHaveBeenLastCalledWith(0.2);
    const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(true);
    document.dispatchEvent(new Event("visibilitychange"));
    expect(kernel.opened.pace).toHaveBeenLastCalledWith(UNSEEN);
    hidden.mockReturnValue(false);
    document.dispatchEvent(new Event("visibilitychange"));
    expect(kernel.opened.pace).toHaveBeenLastCalledWith(0.2);
  });
});

describe("a restart of the kernel", () => {
  it("leaves what was shown, and says so for as long as the kernel lacks the run", () => {
    open();
    show({ state: "finished" });
    kernel.become("lost");
    const words = "The kernel was restarted; this is what it had shown.";
    expect(notice()).toBe(words);
    kernel.become("opening");
    expect(notice()).toBe(words);
    kernel.state = "open";
    kernel.tell([]);
    expect(notice()).toBe(words);
    expect(find(".tos-title").textContent).toBe("Run 3");
    expect(find(".tos-run").hidden).toBe(false);
    expect(tab.title.label).toBe("Run 3 · first.ipynb");
  });

  it("that was none, as the run is still there, is forgotten", async () => {
    open();
    await vi.advanceTimersByTimeAsync(0);
    show();
    kernel.become("lost");
    kernel.become("open");
    expect(kernel.opened.hello).toHaveBeenCalledTimes(2);
    show();
    expect(notice()).toBe("");
  });
});

it("a closed notebook is to be opened; that alone is no restart", () => {
  open();
  show();
  kernel.become("closed");
  expect(notice()).toBe("The notebook is closed; open it to follow the run.");
  expect(find(".tos-run").hidden).toBe(false);
  kernel.become("open");
  expect(notice()).toBe("");
});

describe("a restored tab", () => {
  beforeEach(() => {
    kernel = new FakeKernel();
    kernel.state = "absent";
    open();
  });

  it("waits for the kernel, then shows the run", () => {
    expect(notice()).toBe("");
    expect(tab.title.label).toBe("Run · first.ipynb");
    kernel.become("opening");
    expect(notice()).toBe("");
    kernel.state = "open";
    kernel.tell([row(3)]);
    expect(notice()).toBe("");
    expect(tab.title.label).toBe("Run 3 · first.ipynb");
  });

  it("says that its notebook is closed, and waits again once it is opened", () => {
    kernel.become("closed");
    expect(notice()).toContain("The notebook is closed");
    expect(find(".tos-run").hidden).toBe(true);
    kernel.become("absent");
    expect(notice()).toBe("");
    expect(find(".tos-run").hidden).toBe(false);
  });

  it.each(["open", "absent", "lost"] as const)(
    "whose kernel turns out to be %s without the run says so instead of waiting",
    (state) => {
      kernel.become("opening");
      kernel.become(state);
      expect(notice()).toContain("does not know this run");
      expect(find(".tos-run").hidden).toBe(true);
    },
  );
});
