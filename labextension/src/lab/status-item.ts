/** The status bar's item, and the words in which a run's state is told in few characters. */

import type { TranslationBundle } from "@jupyterlab/translation";
import { type ISignal, Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";

import { h, setAttribute, setText } from "../view/dom";
import { number } from "../view/format";
import { hasEnded } from "../view/model";
import { word } from "../view/words";
import type { Kernel, Kernels } from "./kernels";
import type { ClusterRow, RunRow } from "./protocol";

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

/** A cluster's own state; or "lost" if it was active and its kernel is gone. */
export function clusterState(kernel: Kernel, row: ClusterRow): string {
  return kernel.state === "lost" && row.active ? "lost" : row.state;
}

/** Such as `3/4 nodes run`. */
export function nodesText({ running, nodes }: ClusterRow, trans: TranslationBundle): string {
  return trans.__("%1/%2 nodes run", running, nodes);
}

/** Such as `tos: cluster 2 · running · 3/4 nodes run`. */
export function clusterText(kernel: Kernel, row: ClusterRow, trans: TranslationBundle): string {
  const parts = [trans.__("tos: cluster %1", row.number), word(clusterState(kernel, row))];
  if (row.active) parts.push(nodesText(row, trans));
  return parts.join(" · ");
}

interface Said {
  text: string;
  action: string;
  go: () => void;
}

/** The run, or the TensorFlow cluster, of the notebook or console in front; nothing without one. */
export class StatusItem extends Widget {
  private readonly button = h("button", {
    type: "button",
    class: "tos-lab-status jp-StatusBar-TextItem",
  });
  private readonly changes = new Signal<this, void>(this);

  constructor(
    private readonly kernels: Kernels,
    private readonly trans: TranslationBundle,
    private readonly jump: (kernel: Kernel, row: RunRow) => void,
    private readonly openCluster: (kernel: Kernel, row: ClusterRow) => void = () => undefined,
  ) {
    super();
    this.node.append(this.button);
    this.button.addEventListener("click", () => {
      this.said?.go();
    });
    kernels.changed.connect(this.draw, this);
    this.draw();
  }

  /** For the status bar, which hides and shows its items itself. */
  readonly isActive = (): boolean => this.said !== null;

  get activeStateChanged(): ISignal<this, void> {
    return this.changes;
  }

  /** What is active goes before what has ended, and a run before a cluster. */
  private get said(): Said | null {
    const { current } = this.kernels;
    if (current === null) return null;
    const { current: run, currentCluster: cluster } = current.overview;
    if (cluster && (run === null || (cluster.active && hasEnded(run.state)))) {
      return this.ofCluster(current, cluster);
    }
    return run && this.ofRun(current, run);
  }

  private ofRun(kernel: Kernel, row: RunRow): Said {
    const action =
      row.cell === null
        ? this.trans.__("Open run %1", row.number)
        : this.trans.__("Go to the cell that started run %1", row.number);
    const go = (): void => {
      this.jump(kernel, row);
    };
    return { text: statusText(row, stateOf(kernel, row), this.trans), action, go };
  }

  private ofCluster(kernel: Kernel, row: ClusterRow): Said {
    const action = this.trans.__("Go to the cell that started cluster %1", row.number);
    const go = (): void => {
      this.openCluster(kernel, row);
    };
    return { text: clusterText(kernel, row, this.trans), action, go };
  }

  private readonly draw = (): void => {
    const { said } = this;
    if (said) {
      const { text, action } = said;
      setText(this.button, text);
      // Both hold what is to be seen: saying it finds the button, and it may be cut.
      for (const name of ["title", "aria-label"]) {
        setAttribute(this.button, name, `${text}. ${action}`);
      }
    }
    if (this.isHidden === (said === null)) return;
    this.setHidden(said === null);
    this.changes.emit();
  };
}
