/** The live view of a TensorFlow cluster. */

import { Board } from "./board";
import { Stop } from "./buttons";
import {
  type ClusterChannel,
  type ClusterFeed,
  type ClusterMessage,
  type ClusterState,
  clusterSentence,
  fedShare,
  feedText,
} from "./cluster";
import { NodeTable } from "./cluster-nodes";
import { h, setAttribute, setText, uniqueId } from "./dom";
import { ErrorPane } from "./error";
import { duration } from "./format";
import { keepFromHost } from "./keys";
import { t } from "./text";
import { readTheme, watchTheme } from "./theme";
import { sign, word } from "./words";

/** Milliseconds without a message after which an active cluster's kernel counts as silent. */
export const SILENCE = 10_000;
/** Milliseconds until an unanswered hello is said again. */
export const AGAIN = 5000;
const TICK = 1000;

class Header {
  private readonly title = h("strong", { class: "tos-title" });
  private readonly state = h("span", { class: "tos-state" });
  private readonly about = h("span", { class: "tos-about" });
  private readonly progress = h("progress", { max: 1, value: 0, "aria-label": t("Rows fed") });
  private readonly fed = h("span", { class: "tos-epoch" });
  private readonly feed = h("div", { class: "tos-progress", "data-tos": "feed" });
  private readonly notes = h("p", { class: "tos-waits", "data-tos": "notes" });
  readonly element = h("div", { class: "tos-header" });

  constructor() {
    const line = h("div", { class: "tos-headline" }, this.title, this.state, this.about);
    this.feed.append(this.progress, this.fed);
    this.element.append(line, this.notes, this.feed);
  }

  draw({ number, state, elapsed, feed, notes }: ClusterState): void {
    setText(this.title, t("TensorFlow cluster %1", number));
    setText(this.state, `${sign(state)} ${word(state)}`);
    setAttribute(this.state, "data-state", state);
    setText(this.about, duration(elapsed));
    this.notes.hidden = notes.length === 0;
    setText(this.notes, notes.join("\n"));
    this.feed.hidden = feed === null;
    if (feed) this.drawFeed(feed);
  }

  private drawFeed(feed: ClusterFeed): void {
    this.progress.value = fedShare(feed);
    setText(this.fed, `${feed.data}: ${feedText(feed)}`);
  }
}

export class ClusterView {
  private readonly root = h("div", { class: "tos-run tos-cluster", "data-state": "waiting" });
  private readonly notice = h("p", { class: "tos-notice" }, t("Waiting for the kernel …"));
  private readonly status = h(
    "p",
    { role: "status", "aria-live": "polite", "data-tos": "status", class: "tos-hidden" },
    t("Waiting for the kernel."),
  );
  private readonly header = new Header();
  private readonly error = new ErrorPane();
  private readonly noteId = uniqueId("note");
  private readonly note = h("p", { class: "tos-note", id: this.noteId, role: "status" });
  private readonly stop: Stop;
  private readonly controls: HTMLElement;
  private readonly nodes = new NodeTable();
  private readonly board = new Board();
  private readonly body: HTMLElement;
  private readonly cleanups: (() => void)[] = [];
  private known: ClusterMessage | null = null;
  private heard = performance.now();
  /** When hello was said last; null before. */
  private asked: number | null = null;
  private lost = "";

  constructor(private readonly channel: ClusterChannel) {
    this.stop = new Stop(this.noteId, this.askForStop, (asking) => {
      setText(this.note, asking ? t("Click again to end all nodes.") : "");
    });
    this.controls = h(
      "div",
      { class: "tos-buttons", role: "group", "aria-label": t("Commands") },
      ...[this.stop.button, this.note],
    );
    const parts = [this.header, this.error, this.nodes, this.board].map(({ element }) => element);
    parts.splice(2, 0, this.controls);
    this.body = h("div", { class: "tos-body", hidden: true }, ...parts);
    this.root.append(this.notice, this.status, this.body);
    this.root.addEventListener("keydown", keepFromHost);
  }

  get element(): HTMLElement {
    return this.root;
  }

  start(): void {
    this.restyle();
    const timer = window.setInterval(this.tick, TICK);
    this.cleanups.push(() => {
      window.clearInterval(timer);
    }, watchTheme(this.restyle));
    this.channel.open(this.told, this.refused).then(
      () => {
        if (this.cleanups.length > 0) this.ask();
      },
      (reason: unknown) => {
        this.lost = t("The kernel of this cluster is gone; this is what it had shown.");
        this.tell();
        console.warn(reason);
      },
    );
  }

  readonly destroy = (): void => {
    for (const cleanup of this.cleanups.splice(0)) cleanup();
    this.stop.destroy();
    this.channel.close();
    this.root.remove();
  };

  private readonly told = (message: ClusterMessage): void => {
    this.heard = performance.now();
    this.known = message;
    const { state, active } = message;
    setAttribute(this.root, "data-state", state.state);
    this.restyle();
    this.body.hidden = false;
    this.header.draw(state);
    this.error.show(state.failure);
    this.nodes.draw(state);
    this.board.draw(state.tensorboard, active);
    this.tell();
  };

  private readonly refused = (why: string): void => {
    setText(this.note, why);
  };

  private readonly askForStop = (): void => {
    setText(this.note, t("asked"));
    this.channel.stop();
  };

  private ask(): void {
    this.asked = performance.now();
    this.channel.hello();
  }

  private readonly tick = (): void => {
    const since = this.known === null ? this.asked : null;
    if (since !== null && performance.now() - since > AGAIN) this.ask();
    this.tell();
  };

  /** Say what is wrong with the connection, if anything, and where the cluster stands. */
  private tell(): void {
    const { known } = this;
    const active = known === null || known.active;
    const silent = active && performance.now() - this.heard > SILENCE;
    let notice = known === null ? t("Waiting for the kernel …") : "";
    if (silent) notice = t("The kernel does not answer (busy or gone).");
    notice = this.lost || notice;
    this.notice.hidden = notice === "";
    setText(this.notice, notice);
    if (known) setText(this.status, notice || clusterSentence(known.state));
    const state = known?.state.state ?? "";
    const usable = this.lost === "" && /^(starting|running)$/.test(state);
    if (!usable && state !== "" && state !== "stopping") setText(this.note, "");
    setAttribute(this.stop.button, "aria-disabled", String(!usable));
    this.stop.draw(usable);
    this.controls.hidden = known !== null && !known.active;
  }

  private readonly restyle = (): void => {
    readTheme(this.root);
  };
}
