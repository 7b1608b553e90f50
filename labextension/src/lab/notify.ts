/** Tells a user who may be looking elsewhere that a long run has ended. */

import { Notification } from "@jupyterlab/apputils";
import type { TranslationBundle } from "@jupyterlab/translation";

import { duration, number } from "../view/format";
import { hasEnded } from "../view/model";
import type { Kernel, Kernels } from "./kernels";
import type { RunRow } from "./protocol";
import { isSeen } from "./run-views";
import { concern, titled, validated } from "./run-words";
import type { SettingsModel } from "./settings";

/** Milliseconds for which the good news stands; an error stands until it is closed. */
export const READ = 8_000;

export class Notifier {
  /** The ids of runs that were seen active: the end of any other is old news. */
  private readonly active = new Set<string>();

  constructor(
    private readonly kernels: Kernels,
    private readonly settings: SettingsModel,
    private readonly trans: TranslationBundle,
    private readonly openRun: (kernel: Kernel, run: string) => void,
  ) {
    kernels.changed.connect(this.look);
    this.look();
  }

  /** To be called while a person's gesture is handled; elsewhere browsers refuse to ask. */
  askPermission(): void {
    if (this.settings.current.notify === "never" || !("Notification" in window)) return;
    if (window.Notification.permission !== "default") return;
    window.Notification.requestPermission().catch(console.warn);
  }

  private readonly look = (): void => {
    for (const kernel of this.kernels) {
      for (const row of kernel.overview.runs) {
        if (!hasEnded(row.state)) this.active.add(row.id);
        else if (this.active.delete(row.id) && this.matters(row)) this.tell(kernel, row);
      }
    }
  };

  private matters({ id, state, reason, elapsed }: RunRow): boolean {
    const { notify, notifyAfter } = this.settings.current;
    // A user who stopped it, or looks at it, knows. A condition that has stopped it has its reason.
    if ((state === "stopped" && !reason) || isSeen(id)) return false;
    const wanted = notify === "always" || (notify === "failed" && state === "failed");
    return wanted && elapsed >= notifyAfter;
  }

  private tell(kernel: Kernel, row: RunRow): void {
    const open = (): void => {
      this.openRun(kernel, row.id);
    };
    const text = endOf(kernel, row, this.trans);
    const actions = [{ label: this.trans.__("Open"), callback: open }];
    if (row.state === "failed") Notification.error(text, { autoClose: false, actions });
    else if (row.warning) Notification.warning(text, { autoClose: READ, actions });
    else Notification.success(text, { autoClose: READ, actions });
    desktop(text, row.id, open);
  }
}

function endOf({ name }: Kernel, row: RunRow, trans: TranslationBundle): string {
  const lasted = duration(row.elapsed);
  const run = titled(row, trans);
  if (row.state === "failed") {
    const text = trans.__("%1 of %2 has failed after %3.", run, name, lasted);
    return row.error === null ? text : `${text} ${row.error}`;
  }
  const text =
    row.state === "stopped"
      ? trans.__("%1 of %2 was stopped after %3.", run, name, lasted)
      : trans.__("%1 of %2 has finished after %3.", run, name, lasted);
  const why = row.state === "stopped" && row.reason ? [row.reason] : [];
  const loss = row.loss === null ? [] : [trans.__("loss %1", number(row.loss))];
  const told = [...why, ...validated(row, trans), ...loss, concern(row, trans)].filter(Boolean);
  return told.length === 0 ? text : `${text} ${capital(told.join(", "))}.`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function desktop(text: string, tag: string, open: () => void): void {
  if (!("Notification" in window) || window.Notification.permission !== "granted") return;
  try {
    // The tag: several pages that show the same kernel tell it once.
    const shown = new window.Notification("TensorOnSpark", { body: text, tag });
    shown.onclick = () => {
      window.focus();
      shown.close();
      open();
    };
  } catch (reason) {
    // Some browsers on phones have the constructor and throw; the page's own notice is there.
    console.warn(reason);
  }
}
