/** Warnings, messages and commands, in the order of time. */

import { h } from "./dom";
import { duration } from "./format";
import type { RunModel } from "./model";
import { t } from "./text";
import { word } from "./words";

const MAX_LINES = 200;

interface Line {
  time: number;
  level: string;
  text: string;
}

export class Log {
  readonly element = h("ol", {
    ...{ class: "tos-log tos-scroll", tabindex: 0, role: "log", "data-tos": "log" },
    // A log is live by its nature; the status region speaks for it at a bearable pace.
    "aria-live": "off",
    "aria-label": t("Messages"),
  });
  /** How many lines, and how many of them are bad. */
  title = t("Log");
  private times: number[] = [];
  private shown = "";

  /** Show what happened at a time; its pane is seen by now. */
  reveal(time: number): void {
    const at = this.times.findLastIndex((each) => each <= time + 1e-3);
    const line = this.element.children[Math.max(0, at)] as HTMLElement | undefined;
    if (line) this.element.scrollTop = line.offsetTop - this.element.offsetTop;
    this.element.focus({ preventScroll: true });
  }

  draw(model: RunModel): void {
    const all = lines(model);
    const signature = JSON.stringify([all.length, all.slice(-60)]);
    if (signature === this.shown) return;
    this.shown = signature;
    this.times = all.map(({ time }) => time);
    this.title = title(model, all.length);
    const { element } = this;
    const atEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - 4;
    const nothing = h("li", {}, t("Nothing yet: commands, warnings and messages come here."));
    element.replaceChildren(
      ...(all.length === 0 ? [nothing] : []),
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
    if (atEnd) element.scrollTop = element.scrollHeight;
  }
}

function title({ log }: RunModel, length: number): string {
  const bad = log.filter(({ level }) => level !== "info").length;
  const all = length === 0 ? t("Log") : t("Log %1", length);
  return bad === 0 ? all : `${all} ⚠${bad}`;
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
