/** Warnings, messages and commands, in the order of time. */

import { h, setText } from "./dom";
import { duration } from "./format";
import type { RunModel } from "./model";
import { t, tn } from "./text";
import { word } from "./words";

const MAX_LINES = 200;

interface Line {
  time: number;
  level: string;
  text: string;
}

export class Log {
  readonly element: HTMLElement;
  private readonly title = h("summary", {}, t("Log"));
  private readonly list = h("ol", {
    class: "tos-log tos-scroll",
    tabindex: 0,
    role: "log",
    // A log is live by its nature; the status region speaks for it at a bearable pace.
    "aria-live": "off",
    "aria-label": t("Messages"),
  });
  private shown = "";

  constructor() {
    this.element = h("details", { class: "tos-panel", "data-tos": "log" }, this.title, this.list);
  }

  draw(model: RunModel): void {
    const all = lines(model);
    const signature = JSON.stringify([all.length, all.slice(-60)]);
    if (signature === this.shown) return;
    this.shown = signature;
    setText(this.title, title(model, all.length));
    const atEnd = this.list.scrollTop + this.list.clientHeight >= this.list.scrollHeight - 4;
    this.list.replaceChildren(
      ...all.map(({ time, level, text }) =>
        h(
          "li",
          { "data-level": level },
          h("span", { class: "tos-log-time" }, duration(time)),
          h("span", { class: "tos-log-level" }, word(level)),
          h("span", { class: "tos-log-text" }, text),
        ),
      ),
    );
    if (atEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}

function title({ log }: RunModel, length: number): string {
  const bad = log.filter(({ level }) => level !== "info").length;
  if (bad === 0) return t("Log (%1)", length);
  return tn("Log (%2, %1 warning)", "Log (%2, %1 warnings)", bad, length);
}

/** Commands are part of the story: what was asked, and what became of it. */
export function lines(model: Pick<RunModel, "log" | "commands">): Line[] {
  const commands = model.commands.map(({ time, command, detail, stage }) => ({
    ...{ time, level: "command" },
    text: detail
      ? t("%1 (%2): %3", command, detail, word(stage))
      : t("%1: %2", command, word(stage)),
  }));
  return [...model.log, ...commands].sort((a, b) => a.time - b.time).slice(-MAX_LINES);
}
