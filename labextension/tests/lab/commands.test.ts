import type { JupyterFrontEnd } from "@jupyterlab/application";
import { InputDialog } from "@jupyterlab/apputils";
import { NotebookActions } from "@jupyterlab/notebook";
import { beforeEach, describe, expect, it, vi } from "vitest";

import schema from "../../schema/plugin.json";
import { addCommands, COMMANDS } from "../../src/lab/commands";
import { ASKS, idOf } from "../../src/lab/steering";
import { TOGGLE } from "../../src/view/requests";
import {
  fakeCell,
  FakeKernel,
  FakeKernels,
  FakePanel,
  FakeTracker,
  Registry,
  row,
  trans,
  answered,
} from "./documents";

vi.mock("@jupyterlab/apputils", () => ({
  InputDialog: { getText: vi.fn() },
}));
vi.mock("@jupyterlab/notebook", () => ({
  NotebookActions: { insertBelow: vi.fn(), changeCellType: vi.fn(), run: vi.fn() },
}));
vi.mock("../../src/lab/icon", () => ({ tosIcon: {} }));

const insertBelow = vi.mocked(NotebookActions.insertBelow);
const run = vi.mocked(NotebookActions.run);
const getText = vi.mocked(InputDialog.getText);
const [openPanel, openRun, steerRun] = [vi.fn(), vi.fn(), vi.fn()];
const [onInterest, activateById] = [vi.fn(), vi.fn()];

let commands: Registry;
let kernel: FakeKernel;
let kernels: FakeKernels;
let panel: FakePanel;
let tracker: FakeTracker;

function source(index: number): string {
  return panel.content.widgets[index].model.sharedModel.getSource();
}

beforeEach(() => {
  vi.clearAllMocks();
  commands = new Registry();
  kernel = new FakeKernel();
  kernels = new FakeKernels([kernel]);
  panel = new FakePanel("one.ipynb", [fakeCell("cell-0", "model.fit()"), fakeCell("cell-1")]);
  tracker = new FakeTracker([panel]);
  kernel.show(row());
  const app = { commands, shell: { activateById } } as unknown as JupyterFrontEnd;
  const shows = { openPanel, openRun, steerRun };
  const parts = { palette: null, notebooks: tracker.real, trans, ...shows, onInterest };
  addCommands(app, kernels.real, parts);
  insertBelow.mockImplementation(() => {
    panel.content.widgets.splice(1, 0, fakeCell("new"));
    panel.content.activeCellIndex = 1;
  });
  run.mockResolvedValue(true);
});

describe("the schema", () => {
  const ids = [...Object.values(COMMANDS), ...ASKS.map(idOf)];

  it("names only commands that there are", () => {
    expect([...commands.all.keys()].sort()).toEqual([...ids].sort());
    const used = JSON.stringify(schema).match(/"tos-notebook:[a-z-]+"/g) ?? [];
    const named = new Set(used.map((text) => JSON.parse(text) as string));
    named.delete("tos-notebook:icon");
    expect(ids).toEqual(expect.arrayContaining([...named]));
  });

  it("has a menu entry for each, and no shortcut that hides another", () => {
    const items = schema["jupyter.lab.menus"].main[0].items.flatMap(
      ({ submenu }) => submenu?.items ?? [],
    );
    const inMenu = items.flatMap((item) => item.command ?? []);
    expect(inMenu.sort()).toEqual([...ids].sort());
    const keys = schema["jupyter.lab.shortcuts"].map((shortcut) => shortcut.keys.join(" "));
    expect(new Set(keys).size).toBe(keys.length);
  });
});

describe("connect", () => {
  const CODE = "%load_ext tos_notebook\n%tos_connect";

  it("puts a cell below the active one and runs it", async () => {
    await commands.execute(COMMANDS.connect);
    expect(source(1)).toBe(CODE);
    expect(source(0)).toBe("model.fit()");
    expect(run).toHaveBeenCalledExactlyOnceWith(panel.content, panel.sessionContext);
  });

  it("makes it a code cell where new cells are text", async () => {
    insertBelow.mockImplementation(() => {
      panel.content.widgets.splice(1, 0, fakeCell("new", "", "markdown"));
      panel.content.activeCellIndex = 1;
    });
    await commands.execute(COMMANDS.connect);
    expect(NotebookActions.changeCellType).toHaveBeenCalledWith(panel.content, "code");
  });

  it("runs the code in a console", async () => {
    kernels.current = new FakeKernel("console-1");
    await commands.execute(COMMANDS.connect);
    const args = { path: "console-1", code: CODE, activate: false };
    expect(commands.others).toHaveBeenCalledWith("console:inject", args);
    expect(run).not.toHaveBeenCalled();
  });
});

describe("train this cell", () => {
  it.each(["%%tos_train --data train", "\n%%tos_train\nmodel = 1"])("runs %j", async (text) => {
    panel.content.widgets[0].model.sharedModel.setSource(text);
    await commands.execute(COMMANDS.train);
    expect(getText).not.toHaveBeenCalled();
    expect(source(0)).toBe(text);
    expect(panel.content.deselectAll).toHaveBeenCalled();
    expect(run).toHaveBeenCalledOnce();
  });

  it("asks for the data and puts the magic before the cell's text", async () => {
    getText.mockReturnValue(answered(" x, y "));
    await commands.execute(COMMANDS.train);
    expect(getText.mock.calls[0][0].placeholder).toBe("train or x,y");
    expect(source(0)).toBe("%%tos_train --data x,y\nmodel.fit()");
    expect(run).toHaveBeenCalledOnce();
  });

  it("trains the cell for which it has asked", async () => {
    getText.mockImplementation(() => {
      panel.content.activeCellIndex = 1;
      return answered("train");
    });
    await commands.execute(COMMANDS.train);
    expect(panel.content.activeCellIndex).toBe(0);
    expect(source(0)).toContain("--data train");
  });

  it.each([null, "", "  "])("changes nothing if the answer is %j", async (answer) => {
    getText.mockReturnValue(answered(answer));
    await commands.execute(COMMANDS.train);
    expect(source(0)).toBe("model.fit()");
    expect(run).not.toHaveBeenCalled();
  });

  it("is there for code cells alone", () => {
    expect(commands.isEnabled(COMMANDS.train)).toBe(true);
    panel.content.widgets[0].model.type = "markdown";
    expect(commands.isEnabled(COMMANDS.train)).toBe(false);
    kernels.current = new FakeKernel("console-1");
    expect(commands.isEnabled(COMMANDS.train)).toBe(false);
  });

  it("and the panel are signs of interest", async () => {
    getText.mockReturnValue(answered(null));
    await commands.execute(COMMANDS.train);
    await commands.execute(COMMANDS.openPanel);
    expect(onInterest).toHaveBeenCalledTimes(2);
    expect(openPanel).toHaveBeenCalledOnce();
  });
});

describe("menus and palette", () => {
  it("are told of labels and uses that change, and of nothing else", () => {
    kernels.emit();
    commands.notifyCommandChanged.mockClear();
    kernel.show(row({ elapsed: 101, loss: 0.2 }));
    kernels.emit();
    expect(commands.notifyCommandChanged).not.toHaveBeenCalled();
    kernel.show(row({ state: "paused" }));
    kernels.emit();
    expect(commands.notifyCommandChanged.mock.calls).toEqual([[idOf(TOGGLE)]]);
  });

  it("are told when another cell is active", () => {
    kernels.emit();
    commands.notifyCommandChanged.mockClear();
    panel.content.widgets[1].model.type = "markdown";
    panel.content.activeCellIndex = 1;
    tracker.activeCellChanged.emit();
    expect(commands.notifyCommandChanged.mock.calls).toEqual([[COMMANDS.train]]);
  });

  it("show the panel's label where a toolbar shows its icon", () => {
    expect(commands.label(COMMANDS.openPanel)).not.toBe("");
    expect(commands.label(COMMANDS.openPanel, { toolbar: true })).toBe("");
  });
});

describe("the ways to a run", () => {
  it("open the current one, or the one that is named", async () => {
    const other = new FakeKernel("two.ipynb");
    other.show(row({ number: 1 }), row({ number: 2 }));
    kernels.all.push(other);
    await commands.execute(COMMANDS.openRun);
    await commands.execute(COMMANDS.openRun, { path: "two.ipynb", run: "run-1" });
    await commands.execute(COMMANDS.openRun, { path: "gone.ipynb", run: "run-1" });
    expect(openRun.mock.calls).toEqual([
      [kernel, "run-3"],
      [other, "run-1"],
    ]);
  });

  it("steer one that trains", async () => {
    expect(commands.isEnabled(COMMANDS.steerRun)).toBe(true);
    await commands.execute(COMMANDS.steerRun);
    expect(steerRun).toHaveBeenCalledWith(kernel, "run-3");
    kernel.show(row({ number: 3, state: "finished" }));
    expect(commands.isEnabled(COMMANDS.steerRun)).toBe(false);
  });

  it("lead to its cell, and to the run where the cell is gone", async () => {
    await commands.execute(COMMANDS.jumpToCell);
    expect(activateById).toHaveBeenCalledWith(panel.id);
    expect(panel.content.activeCellIndex).toBe(1);
    expect(openRun).not.toHaveBeenCalled();
    panel.content.widgets.pop();
    await commands.execute(COMMANDS.jumpToCell);
    expect(openRun).toHaveBeenCalledWith(kernel, "run-3");
  });
});
