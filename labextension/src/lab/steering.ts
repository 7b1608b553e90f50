/** The palette's commands that steer the run in front, made of the kernel's own table of commands. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Dialog, InputDialog, Notification, showDialog } from "@jupyterlab/apputils";
import type { TranslationBundle } from "@jupyterlab/translation";

import {
  type Action,
  actionsOf,
  applies,
  type Argument,
  type Ask,
  inForce,
  TOGGLE,
  unavailable,
  type When,
} from "../view/requests";
import table from "./actions.json";
import type { Kernel } from "./kernels";
import type { RunRow } from "./protocol";

export type Options = Parameters<JupyterFrontEnd["commands"]["addCommand"]>[1];

export interface Target {
  kernel: Kernel;
  row: RunRow;
}

interface Entry {
  name: string;
  title: string;
  /** What is said before it is done; empty if it is done without. */
  confirm: string;
  when: When;
}

/** Written by `python -m tools.palette`. */
const ENTRIES = table as Entry[];

/** What one command of the palette asks for: those of `TOGGLE` share one. */
export const ASKS: readonly Ask[] = [
  TOGGLE,
  ...ENTRIES.filter(({ name }) => !TOGGLE.commands.includes(name)).map(({ name }) => ({
    commands: [name],
  })),
];

export function idOf({ commands }: Ask): string {
  return `tos-notebook:${commands.join("-").replaceAll(" ", "-")}`;
}

export function steering(
  target: () => Target | null,
  trans: TranslationBundle,
): Record<string, Options> {
  const command = (ask: Ask): Options => {
    const entries = ENTRIES.filter(({ name }) => ask.commands.includes(name));
    // Of two, the second takes back what the first does.
    const entry = (): Entry =>
      (target()?.row.state === "paused" ? entries.at(-1) : undefined) ?? entries[0];
    return {
      label: () => trans.__(entry().title),
      isEnabled: () => {
        const now = target();
        return now?.kernel.state === "open" && unavailable(now.row, ask) === "";
      },
      execute: async () => {
        const now = target();
        if (now) await steer(now, entry(), trans);
      },
    };
  };
  return Object.fromEntries(ASKS.map((ask) => [idOf(ask), command(ask)]));
}

async function steer(target: Target, entry: Entry, trans: TranslationBundle): Promise<void> {
  const { row } = target;
  const action = actionsOf(row).find(({ name }) => name === entry.name);
  if (!action || !(await confirmed(row, entry, action, trans))) return;
  const arguments_: Record<string, unknown> = {};
  for (const argument of action.arguments) {
    const value = await valueOf(row, entry, action, argument, trans);
    if (value === null) return;
    arguments_[argument.name] = value;
  }
  await send(target, trans, entry.name, arguments_);
}

async function confirmed(
  { number }: RunRow,
  { confirm }: Entry,
  { verb }: Action,
  trans: TranslationBundle,
): Promise<boolean> {
  if (confirm === "") return true;
  const { button } = await showDialog({
    title: trans.__("%1 run %2?", trans.__(verb), number),
    body: trans.__(confirm),
    buttons: [
      Dialog.cancelButton({ label: trans.__("Cancel") }),
      Dialog.warnButton({ label: trans.__(verb) }),
    ],
    defaultButton: 0,
  });
  return button.accept;
}

/** Ask for a choice or a whole number, beginning at what is in force; null if there is none. */
async function valueOf(
  row: RunRow,
  { when }: Entry,
  { verb }: Action,
  { name, label, choices }: Argument,
  trans: TranslationBundle,
): Promise<string | number | null> {
  const known = inForce(row);
  const options = {
    title: trans.__("Run %1: %2", row.number, trans.__(verb)),
    label: trans.__("%1, %2", trans.__(label), applies(when)),
    okLabel: trans.__(verb),
  };
  if (choices.length > 0) {
    const now = String(known[name]);
    const items = choices.includes(now) ? [...choices] : [now, ...choices];
    const current = items.indexOf(now);
    return (await InputDialog.getItem({ ...options, items, current })).value;
  }
  const { value } = await InputDialog.getNumber({ ...options, value: Number(known[name]) });
  if (value === null || (Number.isInteger(value) && value >= 1)) return value;
  Notification.error(trans.__("%1: expected a whole number, at least 1.", trans.__(label)));
  return null;
}

/** What comes of it is to be seen in the run's state; a refusal would not be. */
async function send(
  { kernel, row }: Target,
  trans: TranslationBundle,
  command: string,
  arguments_: Record<string, unknown>,
): Promise<void> {
  const refused = (why: string): void => {
    Notification.error(trans.__("Run %1: %2", row.number, why));
  };
  try {
    const { ok, text } = await kernel.command(row.id, command, arguments_);
    if (!ok) refused(text);
  } catch (reason) {
    refused(reason instanceof Error ? reason.message : String(reason));
  }
}
