/** The status bar's item, and the words in which a run's state is told in few characters. */

import type { TranslationBundle } from "@jupyterlab/translation";
import { type ISignal, Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";

import { h, setAttribute, setText } from "../view/dom";
import { number } from "../view/format";
import { hasEnded } from "../view/model";
import { word } from "../view/words";
import type { Kernel, Kernels } from "./kernels";
import type { RunRow } from "./protocol";

/** The run's own state; or "lost" if it was active and its kernel is gone, "waiting" in a queue. */
export function stateOf(kernel: Kernel, row: RunRow): string {
  if (kernel.state === "lost" && !hasEnded(row.state)) return "lost";
  return row.state === "starting" && row.waits?.length ? "waiting" : row.state;
}

/** To people a run that is running trains. */
export function stateWord(state: string): string {
  return word(state === "running" ? "training" : state);
}

/** The latest evaluation of the model that the user gets. */
export function validated(row: RunRow, trans: TranslationBundle): string[] {
  return Object.entries(row.validation ?? {}).map(([name, value]) =>
    trans.__("validation %1 %2", name, number(value)),
  );
}

/** Such as `tos: run 3 · epoch 4/10 · 7/8 executors · loss 0.31`. */
export function statusText(row: RunRow, state: string, trans: TranslationBundle): string {
  const parts = [trans.__("tos: run %1", row.number)];
  if (state !== "running") parts.push(stateWord(state));
  if (state === "lost" || !hasEnded(state))
    parts.push(trans.__("epoch %1/%2", row.epoch, row.epochs));
  if (state === "running") {
    parts.push(trans.__("%1/%2 executors", row.executors.active, row.executors.total));
  }
  parts.push(...validated(row, trans));
  if (row.loss !== null) parts.push(trans.__("loss %1", number(row.loss)));
  return parts.join(" · ");
}

/** The run of the notebook or console in front; nothing without one. */
export class StatusItem extends Widget {
  private readonly button = h("button", {
    type: "button",
    class: "tos-lab-status jp-StatusBar-TextItem",
  });
  private readonly changes = new Signal<this, void>(this);

  constructor(
    private readonly kernels: Kernels,
    private readonly trans: TranslationBundle,
    jump: (kernel: Kernel, row: RunRow) => void,
  ) {
    super();
    this.node.append(this.button);
    this.button.addEventListener("click", () => {
      const { current } = kernels;
      const row = current?.overview.current;
      if (current && row) jump(current, row);
    });
    kernels.changed.connect(this.draw, this);
    this.draw();
  }

  /** For the status bar, which hides and shows its items itself. */
  readonly isActive = (): boolean => Boolean(this.kernels.current?.overview.current);

  get activeStateChanged(): ISignal<this, void> {
    return this.changes;
  }

  private readonly draw = (): void => {
    const { current } = this.kernels;
    const row = current?.overview.current ?? null;
    if (current && row) {
      const text = statusText(row, stateOf(current, row), this.trans);
      const action =
        row.cell === null
          ? this.trans.__("Open run %1", row.number)
          : this.trans.__("Go to the cell that started run %1", row.number);
      setText(this.button, text);
      // Both hold what is to be seen: saying it finds the button, and it may be cut.
      for (const name of ["title", "aria-label"]) {
        setAttribute(this.button, name, `${text}. ${action}`);
      }
    }
    if (this.isHidden === (row === null)) return;
    this.setHidden(row === null);
    this.changes.emit();
  };
}
