/** What the parts of the panel have in common. */

import type { TranslationBundle } from "@jupyterlab/translation";

import type { Kernel } from "./kernels";
import type { ClusterRow, RunRow } from "./protocol";
import type { SparkUi } from "./spark-ui";

export interface PanelContext {
  trans: TranslationBundle;
  openRun: (kernel: Kernel, run: string) => unknown;
  /** Compare runs of a kernel, in its notebook. */
  compare: (kernel: Kernel, runs: readonly RunRow[]) => void;
  /** Bring the cell that started a TensorFlow cluster to the front. */
  openCluster: (kernel: Kernel, cluster: ClusterRow) => void;
  /** Bring the kernel's notebook or console to the front. */
  openDocument: (kernel: Kernel) => void;
  sparkUi: SparkUi;
}

/**
 * Have one part for each key, in this order.
 *
 * Parts are kept and moved only if they must be: a moved element loses the focus.
 */
export function arrange<K, P extends { element: HTMLElement }>(
  parent: HTMLElement,
  parts: Map<K, P>,
  keys: readonly K[],
  make: (key: K) => P,
): void {
  for (const [key, { element }] of parts) {
    if (keys.includes(key)) continue;
    element.remove();
    parts.delete(key);
  }
  keys.forEach((key, i) => {
    const part = parts.get(key) ?? make(key);
    parts.set(key, part);
    const here = parent.children.item(i);
    if (here !== part.element) parent.insertBefore(part.element, here);
  });
}
