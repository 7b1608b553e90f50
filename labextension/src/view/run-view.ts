/** The live view of a run. One instance for each place where it is displayed. */

import type { Channel, Listener } from "./channel";
import { TOLD } from "./chart";
import { Charts } from "./charts";
import { Controls } from "./controls";
import type { ChartSettings } from "./curves";
import { h, setAttribute, setText } from "./dom";
import { ErrorBrief, ErrorPane } from "./error";
import { Facts } from "./facts";
import { Headline } from "./headline";
import { keepFromHost } from "./keys";
import { Lanes } from "./lanes";
import { Link } from "./link";
import { LinkTable } from "./links";
import { inLockstep, hasStaleness } from "./lockstep";
import { Log } from "./log";
import { hasEnded, RunModel, type Snapshot, type StreamMessage } from "./model";
import { Next } from "./next";
import type { Choices } from "./others";
import type { Answer } from "./requests";
import { SettingsPane } from "./settings-pane";
import { Status } from "./status";
import { WorkerTable } from "./table";
import { Tabs } from "./tabs";
import { t } from "./text";
import { Theory } from "./theory";
import { readTheme, watchTheme } from "./theme";
import { drawWhenVisible } from "./visible";
import { Whole } from "./whole";

/** Milliseconds without a message after which an active run's kernel counts as silent. */
export const SILENCE = 10_000;
const TICK = 1000;
/** Pixels of width from which steering has a column of its own. */
export const WIDE = 1100;

export class RunView implements Listener {
  private readonly root = h("div", { class: "tos-run", "data-state": "waiting" });
  private readonly model = new RunModel();
  private readonly theme = readTheme(this.root);
  private readonly notice = h("p", { class: "tos-notice" }, t("Waiting for the kernel …"));
  private readonly status = new Status();
  private readonly headline = new Headline((rate) => {
    this.controls.setRate(rate);
  });
  private readonly facts = new Facts();
  private readonly brief = new ErrorBrief(() => {
    this.tabs.select("error");
  });
  private readonly error = new ErrorPane();
  private readonly charts: Charts;
  private readonly lanes: Lanes;
  private readonly links = new LinkTable();
  private readonly theory = new Theory();
  private readonly table = new WorkerTable();
  private readonly log = new Log();
  private readonly settingsPane = new SettingsPane();
  private readonly tabs: Tabs;
  private readonly link: Link;
  private readonly controls: Controls;
  private readonly next: Next;
  private readonly whole = new Whole(this.root);
  private readonly body: HTMLElement;
  private readonly drawing: ReturnType<typeof drawWhenVisible>;
  private readonly cleanups: (() => void)[] = [];
  private heard = performance.now();
  /** Why nothing moves any more; null while it may. */
  private frozen: string | null = null;
  private lost = false;
  private styled = false;
  private restored = false;
  private width = 0;

  constructor(
    private readonly channel: Channel,
    settings: Partial<ChartSettings> = {},
    others: Choices | null = null,
  ) {
    const now = (): number => performance.now();
    const moved = (): void => {
      this.drawing.request();
    };
    this.link = new Link(channel, now);
    this.charts = new Charts(this.theme, moved, others);
    this.lanes = new Lanes(this.theme, this.charts.state);
    this.controls = new Controls((...command) => this.link.command(...command), now, moved);
    this.next = new Next(moved);
    this.tabs = new Tabs(
      [
        { name: "workers", label: t("Workers"), element: this.table.element },
        { name: "error", label: t("✕ Error"), element: this.error.element },
        { name: "log", label: t("Log"), element: this.log.element },
        { name: "work", label: t("Throughput · staleness · rate"), element: this.charts.work },
        { name: "theory", label: t("Theory"), element: this.theory.element },
        { name: "links", label: t("Links"), element: this.links.element },
        { name: "settings", label: t("Settings"), element: this.settingsPane.element },
      ],
      moved,
    );
    this.body = this.frame();
    this.root.append(this.notice, this.status.element, this.body);
    this.root.addEventListener("keydown", keepFromHost);
    this.root.addEventListener(TOLD, this.reveal);
    this.drawing = drawWhenVisible(this.root, this.draw);
    this.settings(settings);
  }

  get element(): HTMLElement {
    return this.root;
  }

  /** They may change while the view is open; what is left out stays as it is. */
  settings(changed: Partial<ChartSettings>): void {
    this.charts.configure(changed);
  }

  start(): void {
    this.restyle();
    const timer = window.setInterval(this.tick, TICK);
    this.cleanups.push(() => {
      window.clearInterval(timer);
    }, watchTheme(this.restyle));
    this.channel.open(this).then(
      () => {
        // It may have been closed in the meantime.
        if (this.cleanups.length > 0) this.link.begin();
      },
      (reason: unknown) => {
        this.lose(t("The kernel of this run is gone; this is what it had shown."));
        console.warn(reason);
      },
    );
  }

  readonly destroy = (): void => {
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    this.drawing.destroy();
    this.link.close();
    this.controls.destroy();
    this.charts.destroy();
    this.lanes.destroy();
    this.root.remove();
  };

  message(content: StreamMessage, buffers: readonly DataView[]): void {
    this.heard = performance.now();
    const outcome = this.model.apply(content, buffers);
    if (outcome === "gap") this.link.ask();
    if (outcome !== "applied") return;
    if (content.type === "snapshot") this.link.served();
    if (this.lost) {
      this.lost = false;
      this.freeze(null);
    }
    this.mark();
  }

  answer(id: number, answer: Answer): void {
    this.controls.answer(id, answer);
  }

  /** Open what the run is steered by, as soon as there is a run to steer. */
  steer(): void {
    this.controls.show();
  }

  snapshot(): Snapshot | null {
    return this.model.snapshot();
  }

  /** The kernel cannot be reached, for `reason`, empty if it is shown elsewhere; null: it can. */
  freeze(reason: string | null): void {
    if (reason === null && this.lost) {
      // Only a snapshot brings the run back.
      this.link.ask();
      return;
    }
    if (reason === this.frozen) return;
    this.frozen = reason;
    this.controls.freeze(reason !== null);
    this.tell();
  }

  /** The kernel is gone for good, and the run with it. */
  lose(reason: string): void {
    this.lost = true;
    this.model.lose();
    this.freeze(reason);
    this.mark();
  }

  /** The parts in their places. Each keeps its height in every state, so that nothing moves. */
  private frame(): HTMLElement {
    const { charts, controls, next } = this;
    const bar = h("div", { class: "tos-bar" }, this.headline.element, controls.buttons);
    bar.append(next.button, this.whole.button);
    charts.element.querySelector(".tos-toolbar")?.append(controls.feedback.element);
    const seen = h("div", { class: "tos-seen" }, charts.element, this.lanes.element);
    const main = h("div", { class: "tos-main" }, seen);
    main.append(controls.drawer.element, next.drawer.element);
    const learned = h("div", { class: "tos-row" }, this.facts.element, this.brief.element);
    const parts = [bar, this.headline.progress, learned, main, this.tabs.element];
    return h("div", { class: "tos-frame", hidden: true }, ...parts);
  }

  /** A flag of a chart was clicked: show its line in the log. */
  private readonly reveal = (event: Event): void => {
    this.tabs.select("log");
    this.log.reveal((event as CustomEvent<number>).detail);
  };

  private mark(): void {
    const { run, totals } = this.model;
    setAttribute(this.root, "data-state", run?.state ?? "waiting");
    setAttribute(this.root, "data-milestones", String(totals?.milestones ?? 0));
    this.tell();
    this.drawing.request();
  }

  private readonly tick = (): void => {
    this.link.tick();
    this.charts.tick();
    this.tell();
    this.controls.drawNotes();
  };

  /** Say what is wrong with the connection, if anything, and where the run stands. */
  private tell(): void {
    const { run } = this.model;
    const silent = performance.now() - this.heard > SILENCE;
    const active = run === null || !hasEnded(run.state);
    let notice = run === null ? t("Waiting for the kernel …") : "";
    if (active && silent) notice = t("The kernel does not answer (busy or gone).");
    notice = this.frozen ?? notice;
    // Once there is a frame, its own line says so. Before, this is all that can come into sight.
    this.notice.hidden = !this.body.hidden;
    setText(this.notice, notice || t("Drawing …"));
    this.controls.tell(run === null ? "" : notice);
    this.status.draw(this.model, notice, performance.now());
  }

  private readonly draw = (): void => {
    const { model } = this;
    if (model.run === null) return;
    // Outside the page it has no styles to read.
    if (!this.styled && this.root.isConnected) this.restyle();
    this.body.hidden = false;
    this.notice.hidden = true;
    this.headline.draw(model);
    this.facts.draw(model, performance.now());
    this.brief.draw(model);
    this.facts.element.hidden = model.run.error !== null;
    const room = this.whole.room(this.body);
    const taken = this.brief.excess - room;
    // What all this comes to is known when it is drawn.
    if (room > 0 && taken !== this.charts.taken) this.drawing.request();
    this.charts.taken = taken;
    this.charts.wide = this.root.clientWidth >= WIDE;
    for (const part of [this.controls, this.next, this.error, this.charts]) part.draw(model);
    for (const part of [this.lanes, this.links, this.theory]) part.draw(model);
    for (const part of [this.table, this.log, this.settingsPane]) part.draw(model);
    this.drawTabs(model);
    // A new width has moved all of it.
    if (this.width !== (this.width = this.root.clientWidth)) this.controls.drawer.bring();
    if (this.restored) return;
    this.restored = true;
    this.controls.restore(this.root.clientWidth >= WIDE);
  };

  private drawTabs({ run, totals, workers }: RunModel): void {
    this.tabs.label("workers", t("Workers %1", workers.length));
    this.tabs.label("log", this.log.title);
    this.tabs.offer("error", run?.error != null);
    this.tabs.offer("theory", hasStaleness(run));
    this.tabs.offer("links", inLockstep(run) && (totals?.links?.rates.length ?? 0) > 0);
  }

  private readonly restyle = (): void => {
    this.styled = this.root.isConnected;
    Object.assign(this.theme, readTheme(this.root));
    this.charts.restyle();
    this.drawing.request();
  };
}
