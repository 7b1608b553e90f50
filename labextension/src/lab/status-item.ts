/** The status bar's item. */

import type { TranslationBundle } from "@jupyterlab/translation";
import { type ISignal, Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";

import { h, setAttribute, setText } from "../view/dom";
import { hasEnded } from "../view/model";
import { word } from "../view/words";
import type { Kernel, Kernels } from "./kernels";
import type { ClusterRow, RunRow } from "./protocol";
import { called, concern, result, stateOf, stateWord, toGo } from "./run-words";

/** Such as `first 7/12 · ~40 s · val 0.879`; the state only where it is not what one expects. */
export function statusText(row: RunRow, state: string, trans: TranslationBundle): string {
  const begun = !/^(starting|queued)$/.test(state);
  const place = begun ? ` ${row.epoch}/${row.epochs}` : "";
  const parts = [`${called(row, trans)}${place}`];
  if (state !== "running") parts.push(stateWord(state));
  if (begun && state !== "lost") parts.push(toGo(row, trans));
  parts.push(result(row, trans), hasEnded(state) ? "" : concern(row, trans));
  return parts.filter(Boolean).join(" · ");
}

/** A cluster's own state; or "lost" if it was active and its kernel is gone. */
export function clusterState(kernel: Kernel, row: ClusterRow): string {
  return kernel.state === "lost" && row.active ? "lost" : row.state;
}

/** Such as `3/4 nodes run`. */
export function nodesText({ running, nodes }: ClusterRow, trans: TranslationBundle): string {
  return trans.__("%1/%2 nodes run", running, nodes);
}

/** Such as `cluster 2 · running · 3/4 nodes run`. */
export function clusterText(kernel: Kernel, row: ClusterRow, trans: TranslationBundle): string {
  const parts = [trans.__("cluster %1", row.number), word(clusterState(kernel, row))];
  if (row.active) parts.push(nodesText(row, trans));
  return parts.join(" · ");
}

interface Said {
  text: string;
  /** For the eye: also a run that trains may be in trouble. */
  state: string;
  action: string;
  go: () => void;
}

/** The run, or the TensorFlow cluster, of the notebook or console in front; nothing without one. */
export class StatusItem extends Widget {
  private readonly button = h("button", {
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
        ? this.trans.__("Open %1", called(row, this.trans))
        : this.trans.__("Go to the view of %1", called(row, this.trans));
    const go = (): void => {
      this.jump(kernel, row);
    };
    const now = stateOf(kernel, row);
    const state = row.warning && !hasEnded(now) && now !== "lost" ? row.warning.kind : now;
    return { text: statusText(row, now, this.trans), state, action, go };
  }

  private ofCluster(kernel: Kernel, row: ClusterRow): Said {
    const action = this.trans.__("Go to the cell that started cluster %1", row.number);
    const go = (): void => {
      this.openCluster(kernel, row);
    };
    const state = clusterState(kernel, row);
    return { text: clusterText(kernel, row, this.trans), state, action, go };
  }

  private readonly draw = (): void => {
    const { said } = this;
    if (said) {
      const { text, state, action } = said;
      setText(this.button, text);
      setAttribute(this.button, "data-state", state);
      // Both hold what is to be seen: saying it finds the button, and it may be cut.
      for (const name of ["title", "aria-label"]) {
        setAttribute(this.button, name, `TensorOnSpark: ${text}. ${action}`);
      }
    }
    if (this.isHidden === (said === null)) return;
    this.setHidden(said === null);
    this.changes.emit();
  };
}
