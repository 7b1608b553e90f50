import type { JupyterFrontEnd } from "@jupyterlab/application";
import { showErrorMessage } from "@jupyterlab/apputils";
import type { ILauncher } from "@jupyterlab/launcher";
import type { INotebookContent } from "@jupyterlab/nbformat";
import { beforeEach, describe, expect, it, vi } from "vitest";

import { addLauncher, CREATE } from "../../src/lab/launcher";
import { trans } from "./documents";

vi.mock("@jupyterlab/apputils", () => ({ showErrorMessage: vi.fn() }));
vi.mock("../../src/lab/icon", () => ({ tosIcon: { svgstr: "<svg/>" } }));

const TEMPLATE: INotebookContent = { cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 };

interface Command {
  execute: (args: object) => Promise<unknown>;
}

const contents = { newUntitled: vi.fn(), save: vi.fn() };
const execute = vi.fn();
const card = vi.fn();
let command: Command;

beforeEach(() => {
  vi.resetAllMocks();
  contents.newUntitled.mockImplementation(({ path }: { path: string }) =>
    Promise.resolve({ path: `${path}/Untitled.ipynb` }),
  );
  execute.mockResolvedValue("the notebook");
  const addCommand = (id: string, options: Command): void => {
    expect(id).toBe(CREATE);
    command = options;
  };
  const app = { commands: { addCommand, execute }, serviceManager: { contents } };
  const launcher = { add: card } as unknown as ILauncher;
  const front = app as unknown as JupyterFrontEnd;
  addLauncher(front, launcher, trans, null, TEMPLATE, () => "browsed");
});

describe("the launcher's card", () => {
  it("stands among the notebooks with an image of its own", () => {
    expect(card).toHaveBeenCalledWith({
      ...{ command: CREATE, category: "Notebook", rank: 1 },
      kernelIconUrl: "data:image/svg+xml,%3Csvg%2F%3E",
    });
  });

  it.each([
    [{ cwd: "work" }, "work"],
    [{}, "browsed"],
  ])("called with %j makes and opens a notebook in %s", async (args, folder) => {
    expect(await command.execute(args)).toBe("the notebook");
    const path = `${folder}/Untitled.ipynb`;
    const saved = { type: "notebook", format: "json", content: TEMPLATE };
    expect(contents.save).toHaveBeenCalledExactlyOnceWith(path, saved);
    expect(execute).toHaveBeenCalledWith("docmanager:open", { path, factory: "Notebook" });
  });

  it("shows what went wrong", async () => {
    const error = new Error("The folder cannot be written to.");
    contents.newUntitled.mockRejectedValue(error);
    expect(await command.execute({ cwd: "work" })).toBeNull();
    expect(showErrorMessage).toHaveBeenCalledWith("The notebook could not be made", error);
    expect(execute).not.toHaveBeenCalled();
  });
});
