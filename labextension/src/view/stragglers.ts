/** Who lags behind, in words. */

import { shortened } from "./format";
import { t } from "./text";
import type { Worker } from "./workers";

/** Characters of an executor's name. */
const MOST = 32;

/** One sentence; three are named. */
export function stragglerText(workers: readonly Worker[]): string {
  const slow = workers.filter(({ note }) => note !== "");
  if (slow.length === 0) return "";
  const named = slow
    .slice(0, 3)
    .map((w) =>
      t("executor %1, partition %2, is %3", shortened(w.executor, MOST), w.partition, w.note),
    )
    .join("; ");
  if (slow.length <= 3) return t("stragglers: %1", named);
  return t("stragglers: %1; and %2 more", named, slow.length - 3);
}
