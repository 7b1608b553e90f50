import type { JupyterFrontEnd } from "@jupyterlab/application";
import { nullTranslator } from "@jupyterlab/translation";
import { BoxPanel, Panel, SplitPanel, Widget } from "@lumino/widgets";
import { beforeEach, expect, it, vi } from "vitest";

import type { Hub } from "../../src/lab/hub";
import type { Kernel } from "../../src/lab/kernels";
import { RunTabs } from "../../src/lab/run-tabs";
import { DEFAULTS, type SettingsModel } from "../../src/lab/settings";

interface Tab extends Widget {
  content: { run: string; title: Widget["title"] };
}

const saved = vi.hoisted(() => vi.fn(() => Promise.resolve()));
const made = vi.fn();
const apputils = vi.hoisted(() => ({
  WidgetTracker: class {
    readonly all: Tab[] = [];
    currentWidget: Tab | null = null;
    readonly save = saved;
    add(tab: Tab): Promise<void> {
      this.all.push(tab);
      return Promise.resolve();
    }
    find(test: (tab: Tab) => boolean): Tab | undefined {
      return this.all.find(test);
    }
  },
}));
vi.mock("@jupyterlab/apputils", () => apputils);
vi.mock("../../src/lab/run-tab", () => ({
  createRunTab: (_: unknown, run: string, options: object) => {
    made(options);
    const content = Object.assign(new Widget(), { run, name: "first", kernel });
    return Object.assign(new Widget(), { content });
  },
}));

const kernel = { path: "one.ipynb" } as Kernel;
const settings = { current: DEFAULTS, changed: { connect: vi.fn() } } as unknown as SettingsModel;
const trans = nullTranslator.load("tos_notebook");
let main: Panel;
const front = new Widget();
const added = vi.fn();
let add: (tab: Widget, area: string, options?: object) => void;
let tabs: RunTabs;
const addCommand = vi.fn();

beforeEach(() => {
  vi.clearAllMocks();
  main = new Panel();
  Widget.attach(main, document.body);
  add = (tab, area, options) => {
    main.addWidget(tab);
    added(tab.id, area, options);
  };
  const shell = {
    ...{ currentWidget: front, activateById: vi.fn() },
    add: (tab: Widget, area: string, options?: object) => {
      add(tab, area, options);
    },
  };
  const app = { commands: { addCommand }, shell } as unknown as JupyterFrontEnd;
  tabs = new RunTabs(app, { at: () => kernel } as unknown as Hub, trans, settings);
});

it.each([
  [1200, "split-right"],
  [833, "split-bottom"],
])("beside a notebook of %i px the first run opens by %s", (width, mode) => {
  vi.spyOn(front.node, "offsetWidth", "get").mockReturnValue(width);
  tabs.open(kernel, "run-1");
  expect(added.mock.calls).toEqual([["tos-run-1", "main", { mode, activate: false }]]);
});

it("further runs open as tabs beside the first, and an open one is not opened again", () => {
  for (const run of ["run-1", "run-2", "run-1"]) tabs.open(kernel, run);
  expect(added).toHaveBeenCalledTimes(2);
  expect(added.mock.calls[1]).toEqual([
    "tos-run-2",
    "main",
    { mode: "tab-after", ref: "tos-run-1", activate: false },
  ]);
});

it("in Notebook 7, which has no room beside the document, a run gets a part of the height", () => {
  const split = new SplitPanel({ orientation: "vertical" });
  const below = new BoxPanel();
  split.addWidget(new Widget());
  split.addWidget(below);
  Widget.attach(split, document.body);
  vi.spyOn(split, "relativeSizes").mockReturnValue([1, 0]);
  const sizes = vi.spyOn(split, "setRelativeSizes");
  add = (tab, area) => {
    if (area === "down") below.addWidget(tab);
  };
  tabs.open(kernel, "run-1");
  expect(sizes).toHaveBeenCalledExactlyOnceWith([0.55, 0.45]);
});

it("a tab keeps its run's name when the page is reloaded", () => {
  const tab = tabs.open(kernel, "run-1");
  tab.content.title.label = "first";
  expect(saved).toHaveBeenCalledWith(tab);
  const restore = vi.fn(() => Promise.resolve());
  tabs.restore({ restore } as never);
  const [, { args }] = restore.mock.calls[0] as unknown as [
    object,
    { args: (tab: object) => object },
  ];
  expect(args(tab)).toEqual({ path: "one.ipynb", run: "run-1", called: "first" });
  const { execute } = addCommand.mock.calls[0][1] as { execute: (args: object) => void };
  execute({ path: "one.ipynb", run: "run-2", called: "first" });
  expect(made).toHaveBeenLastCalledWith(expect.objectContaining({ called: "first" }));
});
