/** A thin bar and a word on the cells whose runs train, and the way back to such a cell. */

import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";

import { h, setAttribute, setText } from "../view/dom";
import { hasEnded, share } from "../view/model";
import type { Kernel, Kernels } from "./kernels";
import type { RunRow } from "./protocol";
import { viewsOf } from "./run-views";
import { called, stateOf, stateWord } from "./run-words";

/** The notebook of a kernel, if it is open; of several views of it the one in front. */
export function panelOf(notebooks: INotebookTracker, kernel: Kernel): NotebookPanel | null {
  const shows = (panel: NotebookPanel): boolean => panel.sessionContext.path === kernel.path;
  const { currentWidget } = notebooks;
  if (currentWidget && shows(currentWidget)) return currentWidget;
  return notebooks.find(shows) ?? null;
}

/** Make the cell that started it the active one, and show its view; false if it is not there. */
export function revealCell(
  notebooks: INotebookTracker,
  kernel: Kernel,
  row: Pick<RunRow, "id" | "cell">,
): boolean {
  const notebook = panelOf(notebooks, kernel)?.content;
  const index = notebook?.widgets.findIndex(({ model }) => model.id === row.cell) ?? -1;
  if (!notebook || index < 0) return false;
  notebook.mode = "command";
  notebook.activeCellIndex = index;
  const cell = notebook.widgets[index];
  void notebook.scrollToCell(cell).then(() => {
    // The end of a long output may be in sight already, which says least.
    viewsOf(row.id, cell.node)[0]?.scrollIntoView({ block: "start" });
  });
  return true;
}

/** Whole percents: finer steps would be many updates that no user sees. */
export function percent(row: RunRow): number {
  return Math.floor(100 * share(row));
}

class Mark {
  private readonly fill = h("div", { class: "tos-lab-mark-fill" });
  private readonly bar = h(
    "div",
    { class: "tos-lab-mark-bar", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 },
    this.fill,
  );
  private readonly word = h("span", { class: "tos-lab-mark-word" });
  private readonly element = h("div", { class: "tos-lab-mark" }, this.bar, this.word);

  // Last in the cell's node: Lumino finds the places of its own children by counting from the first.
  constructor(private readonly node: HTMLElement) {
    node.append(this.element);
  }

  draw(row: RunRow, state: string): void {
    setAttribute(this.node, "data-tos-run", row.id);
    setAttribute(this.node, "data-tos-state", state);
    setText(this.word, stateWord(state));
    this.bar.hidden = hasEnded(state) || state === "lost";
    if (this.bar.hidden) return;
    const done = String(percent(row));
    if (this.bar.getAttribute("aria-valuenow") === done) return;
    this.bar.setAttribute("aria-valuenow", done);
    this.fill.style.width = `${done}%`;
  }

  name(label: string): void {
    setAttribute(this.bar, "aria-label", label);
  }

  remove(): void {
    this.element.remove();
    this.node.removeAttribute("data-tos-run");
    this.node.removeAttribute("data-tos-state");
  }
}

/**
 * Marks on cells' nodes.
 *
 * A cell's widget keeps its node while the notebook scrolls, with windowing too. It gets a new one
 * if the cell is cut and pasted, changes its type or the document is loaded again; the list of
 * cells tells.
 */
export class CellMarks {
  private readonly marks = new WeakMap<HTMLElement, Mark>();
  /** Ended runs whose cell was run again. */
  private readonly past = new Set<string>();

  constructor(
    private readonly kernels: Kernels,
    notebooks: INotebookTracker,
    private readonly trans: TranslationBundle,
  ) {
    kernels.changed.connect(() => {
      notebooks.forEach(this.draw);
    });
    notebooks.widgetAdded.connect((_, panel) => {
      this.watch(panel);
    });
    notebooks.forEach((panel) => {
      this.watch(panel);
    });
    NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
      const panel = notebooks.find(({ content }) => content === notebook);
      if (panel) this.forget(panel, cell.model.id);
    });
  }

  private watch(panel: NotebookPanel): void {
    const draw = (): void => {
      this.draw(panel);
    };
    const follow = (): void => {
      panel.content.model?.cells.changed.connect(draw);
      draw();
    };
    panel.content.modelChanged.connect(follow);
    follow();
  }

  private forget(panel: NotebookPanel, cell: string): void {
    const kernel = this.kernels.find(panel.sessionContext.path);
    for (const row of kernel?.overview.runs ?? []) {
      if (kernel && row.cell === cell && settled(stateOf(kernel, row))) this.past.add(row.id);
    }
    this.draw(panel);
  }

  private readonly draw = (panel: NotebookPanel): void => {
    const kernel = this.kernels.find(panel.sessionContext.path);
    // Oldest first, so that a cell's newest run is the one that stays.
    const newest = new Map(kernel?.overview.runs.map((row) => [row.cell, row]));
    for (const { node, model } of panel.content.widgets) {
      const row = newest.get(model.id);
      const state = kernel && row ? stateOf(kernel, row) : "";
      if (row && state !== "finished" && !this.past.has(row.id)) this.mark(node, row, state);
      else this.clear(node);
    }
  };

  private mark(node: HTMLElement, row: RunRow, state: string): void {
    let mark = this.marks.get(node);
    if (!mark) {
      mark = new Mark(node);
      this.marks.set(node, mark);
    }
    mark.name(this.trans.__("Progress of %1", called(row, this.trans)));
    mark.draw(row, state);
  }

  private clear(node: HTMLElement): void {
    this.marks.get(node)?.remove();
    this.marks.delete(node);
  }
}

/** Whether nothing more will come of a run in this state. */
function settled(state: string): boolean {
  return state === "lost" || hasEnded(state);
}
