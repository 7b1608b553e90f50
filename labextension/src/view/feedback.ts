/** The view's one line of what was asked, what became of it, and what a person should know. */

import { clock } from "./charts-scale";
import { h, setAttribute, setText, uniqueId } from "./dom";
import { type CommandEntry, hasEnded, type RunModel } from "./model";
import { isQueued, notices } from "./notices";
import { type Action, actionsOf, applies, type Request, SLOW } from "./requests";
import { t } from "./text";
import { inPlain, word } from "./words";

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
  private readonly told = h("span", {
    ...{ id: this.id, class: "tos-told tos-clamped", role: "status" },
  });
  private readonly first = h("span", { class: "tos-clamped" });
  /** How many notices there are besides, which is never cut. */
  private readonly more = h("span");
  private readonly noted = h(
    "span",
    { class: "tos-noted", "data-tos": "waits", hidden: true },
    ...[this.first, this.more],
  );
  readonly element = h("p", { class: "tos-saying" }, this.told, this.noted);
  private readonly seen = new Map<string, Seen>();
  /** Commands that were sent from here last, in words, and what the kernel answered. */
  private sent: { what: string; request: Request }[] = [];
  private fresh = true;

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
    setText(this.first, noted.at(0) ?? "");
    setText(this.more, noted.length > 1 ? t(" (%1 more)", noted.length - 1) : "");
    setAttribute(this.noted, "title", noted.join("\n"));
  }

  /** Note when a command came to its stage. */
  private look({ run }: RunModel, commands: readonly CommandEntry[], now: number): void {
    if (run === null) return;
    for (const entry of commands) {
      const key = `${entry.time} ${entry.command}`;
      if (this.seen.get(key)?.stage === entry.stage) continue;
      const { elapsed, epoch } = run;
      const at = this.fresh && entry.stage !== "asked" ? -Infinity : now;
      this.seen.set(key, { stage: entry.stage, at, elapsed, epoch });
    }
    this.fresh = false;
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
    if (latest !== null && latest.time > before) {
      // What one click has asked for is told together.
      const together = this.sent.length > 1 && commands.filter(({ time }) => time > before);
      return this.staged(together || [latest], model, now);
    }
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

  /** Entries of one request, told by what became of them. */
  private staged(entries: readonly CommandEntry[], { run }: RunModel, now: number): News {
    const actions = run ? actionsOf(run) : [];
    const at = (entry: CommandEntry): Seen | undefined =>
      this.seen.get(`${entry.time} ${entry.command}`);
    const of = (stage: string): CommandEntry[] => entries.filter((one) => one.stage === stage);
    const what = (some: CommandEntry[]): string =>
      some.map((entry) => inWords(entry, actions)).join(", ");
    const texts: string[] = [];
    const refused = of("refused").filter((entry) => (at(entry)?.at ?? -Infinity) !== -Infinity);
    for (const entry of refused) {
      texts.push(t("refused: %1", `${inWords(entry, actions)}. ${entry.detail}`));
    }
    const asked = of("asked");
    if (asked.length > 0) {
      const [{ when }] = asked;
      texts.push(t("asked: %1; applies %2", what(asked), applies(when)));
    }
    const settled = of("in force").filter((entry) => now - (at(entry)?.at ?? -Infinity) <= FADES);
    if (settled.length > 0) {
      const { elapsed, epoch } = at(settled[settled.length - 1]) ?? { elapsed: 0, epoch: 0 };
      const since = whole(t("since %1 (epoch %2)", clock(Math.round(elapsed)), epoch));
      texts.push(`${t("in force: %1", what(settled))}, ${since}`);
    }
    return { text: texts.join("; "), bad: refused.length > 0 };
  }
}

/** In one piece: no line ends within. */
function whole(text: string): string {
  return text.replaceAll(" ", "\u00a0");
}

/** What a command asks for: settings by the labels of their fields. */
export function inWords(
  { command, changes, detail, stage }: CommandEntry,
  actions: readonly Action[],
): string {
  const fields = actions.flatMap((action) => action.arguments);
  const changed = Object.entries(changes).map(([name, value]) => {
    const label = fields.find((field) => field.name === name)?.label;
    const plain = inPlain(value);
    return label ? t("%1 %2", word(label), plain) : `${name} ${plain}`;
  });
  if (changed.length > 0) return changed.join(", ");
  // What a run says of a pause, or why it refused, is another thing than what was asked.
  const plain = stage === "refused" || /^(pause|unpause|stop)$/.test(command);
  return plain || detail === "" ? word(command) : t("%1: %2", word(command), inPlain(detail));
}

/** What the run waits for, and what goes wrong on purpose. */
function noticesOf(run: NonNullable<RunModel["run"]>): string[] {
  const chaos = run.chaos.map((rule) => t("⚠ chaos is on: %1", rule));
  // Of a queued run the headline says it.
  const said = isQueued(run) ? run.waits?.[0] : null;
  const fresh = notices(run).filter(({ text }) => text !== said);
  const noted = fresh.map(({ sign, text }) => `${sign} ${text}`);
  return hasEnded(run.state) ? [] : [...noted, ...chaos];
}
