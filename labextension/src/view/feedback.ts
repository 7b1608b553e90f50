/** The view's one line of what was asked, what became of it, and what a person should know. */

import { h, setAttribute, setText, uniqueId } from "./dom";
import { duration } from "./format";
import { type CommandEntry, hasEnded, type RunModel } from "./model";
import { notices } from "./notices";
import { type Action, actionsOf, applies, type Request, SLOW } from "./requests";
import { t } from "./text";
import { word } from "./words";

/** Milliseconds for which the line says that something is in force. */
export const FADES = 10_000;

interface Seen {
  stage: string;
  /** When it was seen; before the view was opened: -Infinity. */
  at: number;
  elapsed: number;
  epoch: number;
}

interface News {
  text: string;
  bad: boolean;
}

const NOTHING: News = { text: "", bad: false };

export class Feedback {
  readonly id = uniqueId("feedback");
  private readonly told = h("span", { id: this.id, class: "tos-told", role: "status" });
  private readonly noted = h("span", { class: "tos-noted", "data-tos": "waits", hidden: true });
  readonly element = h("p", { class: "tos-saying" }, this.told, this.noted);
  private readonly seen = new Map<string, Seen>();
  /** Commands that were sent from here last, in words, and what the kernel answered. */
  private sent: { what: string; request: Request }[] = [];
  private first = true;

  /** Commands were sent. */
  send(commands: { what: string; request: Request }[]): void {
    this.sent = commands;
  }

  /** `question` and `notice` come before everything else. */
  draw(model: RunModel, question: string, notice: string, now: number): void {
    // What a callback sends at every epoch would never leave the line to anything else.
    const commands = model.commands.filter(({ series }) => !series);
    this.look(model, commands, now);
    const news = question || notice ? NOTHING : this.news(model, commands, now);
    const text = question || notice || news.text;
    setText(this.told, text);
    setAttribute(this.told, "title", text);
    setAttribute(this.told, "data-kind", news.bad ? "refused" : notice ? "notice" : "");
    const noted = model.run === null || text !== "" ? [] : noticesOf(model.run);
    this.noted.hidden = noted.length === 0;
    const more = noted.length > 1 ? t(" (%1 more)", noted.length - 1) : "";
    setText(this.noted, noted.length > 0 ? noted[0] + more : "");
    setAttribute(this.noted, "title", noted.join("\n"));
  }

  /** Note when a command came to its stage. */
  private look({ run }: RunModel, commands: readonly CommandEntry[], now: number): void {
    if (run === null) return;
    for (const entry of commands) {
      const key = `${entry.time} ${entry.command}`;
      if (this.seen.get(key)?.stage === entry.stage) continue;
      const { elapsed, epoch } = run;
      const at = this.first && entry.stage !== "asked" ? -Infinity : now;
      this.seen.set(key, { stage: entry.stage, at, elapsed, epoch });
    }
    this.first = false;
    const known = new Set(commands.map(({ time, command }) => `${time} ${command}`));
    for (const key of this.seen.keys()) if (!known.has(key)) this.seen.delete(key);
  }

  private news(model: RunModel, commands: readonly CommandEntry[], now: number): News {
    const open = this.sent.filter(({ request }) => request.answer === null);
    if (open.length > 0) {
      const what = open.map((one) => one.what).join(", ");
      const late = open.some(({ request }) => now - request.sent > SLOW);
      const text = late ? t("sent: %1; waits for the running cell", what) : t("sent: %1", what);
      return { text, bad: false };
    }
    const latest = this.latest(commands);
    const before = this.sent.at(0)?.request.before ?? -Infinity;
    if (latest !== null && latest.time > before) return this.staged(latest, model, now);
    const refused = this.sent.find(({ request }) => request.answer?.ok === false);
    if (refused) {
      return { text: t("refused: %1", refused.request.answer?.text ?? ""), bad: true };
    }
    const asked = this.sent.at(-1);
    if (!asked) return NOTHING;
    const when = applies(asked.request.answer?.when ?? "milestone");
    return { text: t("asked: %1; applies %2", asked.what, when), bad: false };
  }

  /** The entry that has changed last. */
  private latest(commands: readonly CommandEntry[]): CommandEntry | null {
    const at = (entry: CommandEntry): number =>
      this.seen.get(`${entry.time} ${entry.command}`)?.at ?? -Infinity;
    return commands.reduce<CommandEntry | null>(
      (last, entry) => (last === null || at(entry) >= at(last) ? entry : last),
      null,
    );
  }

  private staged(entry: CommandEntry, { run }: RunModel, now: number): News {
    const seen = this.seen.get(`${entry.time} ${entry.command}`);
    const what = inWords(entry, run ? actionsOf(run) : []);
    switch (entry.stage) {
      case "asked":
        return { text: t("asked: %1; applies %2", what, applies(entry.when)), bad: false };
      case "in force": {
        if (!seen || now - seen.at > FADES) return NOTHING;
        const text = t("in force: %1", what);
        const since = t("%1, since %2 (epoch %3)", text, duration(seen.elapsed), seen.epoch);
        return { text: since, bad: false };
      }
      case "refused":
        if (!seen || seen.at === -Infinity) return NOTHING;
        return { text: t("refused: %1", `${what}. ${entry.detail}`), bad: true };
    }
  }
}

/** What a command asks for: settings by the labels of their fields. */
export function inWords(
  { command, changes, detail, stage }: CommandEntry,
  actions: readonly Action[],
): string {
  const fields = actions.flatMap((action) => action.arguments);
  const changed = Object.entries(changes).map(([name, value]) => {
    const label = fields.find((field) => field.name === name)?.label;
    return label ? t("%1 %2", word(label), value) : `${name} ${value}`;
  });
  if (changed.length > 0) return changed.join(", ");
  // What a run says of a pause, or why it refused, is another thing than what was asked.
  const plain = stage === "refused" || /^(pause|unpause|stop)$/.test(command);
  return plain || detail === "" ? word(command) : t("%1: %2", word(command), detail);
}

/** What the run waits for, and what goes wrong on purpose. */
function noticesOf(run: NonNullable<RunModel["run"]>): string[] {
  const chaos = run.chaos.map((rule) => t("⚠ chaos is on: %1", rule));
  const noted = notices(run).map(({ sign, text }) => `${sign} ${text}`);
  return hasEnded(run.state) ? [] : [...noted, ...chaos];
}
