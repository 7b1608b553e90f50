/** What steps of all workers together cost, and who is the slowest, in words. */

import { bytes, percent, shortened } from "./format";
import { t } from "./text";
import type { Costs } from "./workers";

/** Characters of an executor's name. */
const MOST = 32;

export function costsText(costs: Costs | null | undefined): string {
  if (!costs) return "";
  const { compute, exchange, wait, sent, received, slowest } = costs;
  const parts = [compute, exchange, wait].map(percent);
  return [
    t("Workers compute %1 of their time, reduce %2 and wait %3.", ...parts),
    t("Each sends %1/s and receives %2/s.", bytes(sent), bytes(received)),
    !slowest
      ? t("No worker is much slower than the others.")
      : t(
          "Slowest: executor %1, partition %2. It waits %3 of its time, the others %4.",
          shortened(slowest.executor, MOST),
          slowest.partition,
          ...[slowest.waiting, slowest.others].map(percent),
        ),
  ].join(" ");
}
