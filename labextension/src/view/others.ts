/** Other runs in a run's charts: which can be chosen, which are, and what is known of them. */

import type { Channel, Listener } from "./channel";
import type { ChartState } from "./charts-state";
import type { Beside } from "./curves";
import { h, setAttribute, setText } from "./dom";
import { Drawer } from "./drawer";
import { Link } from "./link";
import { RunModel, type StreamMessage } from "./model";
import { t, tn } from "./text";
import { nameOf } from "./words";

/** A run that can be drawn beside another. */
export interface Choice {
  id: string;
  name: string;
  /** What tells it from another of the same name. */
  detail: string;
  open: () => Channel;
}

/** What can be drawn beside the run of this id now. */
export type Choices = (run: string) => readonly Choice[];

/** At once: so many colors can be told apart. */
export const MOST = 4;

const now = (): number => performance.now();

/** A run that was chosen. If it goes away, its curves stay as they were. */
export class Other implements Beside, Listener {
  readonly model = new RunModel();
  private readonly link: Link;
  private closed = false;

  constructor(
    readonly choice: Choice,
    readonly place: number,
    private readonly changed: () => void,
  ) {
    const channel = choice.open();
    this.link = new Link(channel, now);
    channel.open(this).then(
      () => {
        if (!this.closed) this.link.begin();
      },
      (reason: unknown) => {
        console.warn(reason);
      },
    );
  }

  get id(): string {
    return this.choice.id;
  }

  get name(): string {
    return this.model.run ? nameOf(this.model.run) : this.choice.name;
  }

  message(content: StreamMessage, buffers: readonly DataView[]): void {
    const outcome = this.model.apply(content, buffers);
    if (outcome === "gap") this.link.ask();
    if (outcome !== "applied") return;
    if (content.type === "snapshot") this.link.served();
    this.changed();
  }

  answer(): void {
    /* It is not steered from here. */
  }

  /** Only its own view shows all of it. */
  snapshot(): null {
    return null;
  }

  tick(): void {
    this.link.tick();
  }

  close(): void {
    this.closed = true;
    this.link.close();
  }
}

export class Others {
  readonly button = h("button", { class: "tos-chip", "data-tos": "others" });
  readonly drawer: Drawer;
  private readonly list = h("div", { class: "tos-drawer-body tos-others-list" });
  private readonly chosen = new Map<string, Other>();
  private run = "";
  private listed = "";

  constructor(
    private readonly choices: Choices,
    private readonly state: ChartState,
  ) {
    this.drawer = new Drawer(this.button, [this.list], () => {
      const listen = this.drawer.isOpen ? "addEventListener" : "removeEventListener";
      for (const event of ["pointerdown", "keydown"]) document[listen](event, this.leave, true);
      this.fill();
    });
    this.drawer.element.classList.add("tos-others");
    this.drawer.name(t("Other runs in the charts"));
    setAttribute(this.button, "title", t("Draw other runs in these charts"));
    this.label();
  }

  /** In the order in which they were chosen. */
  get all(): readonly Other[] {
    return [...this.chosen.values()];
  }

  draw(run: string): void {
    this.run = run;
  }

  tick(): void {
    for (const other of this.chosen.values()) other.tick();
    this.fill();
  }

  destroy(): void {
    for (const other of this.chosen.values()) other.close();
    this.drawer.open(false);
  }

  /** It covers a chart: Escape closes it wherever the focus is, and so does a press beside it. */
  private readonly leave = (event: Event): void => {
    const own = [this.button, this.drawer.element];
    const inside = own.some((element) => element.contains(event.target as Node));
    if (event instanceof KeyboardEvent ? event.key === "Escape" : !inside) this.drawer.open(false);
  };

  private fill(): void {
    if (!this.drawer.isOpen) return;
    const offered = this.choices(this.run);
    const known = new Set(offered.map(({ id }) => id));
    // What went away meanwhile can still be left out.
    const gone = this.all.map(({ choice }) => choice).filter(({ id }) => !known.has(id));
    const all = [...offered, ...gone];
    const listed = JSON.stringify(all);
    if (listed === this.listed) return;
    this.listed = listed;
    const rows = all.map((choice) => this.row(choice));
    const none = h("p", { class: "tos-caption" }, t("No other run to draw yet."));
    const most = h("p", { class: "tos-caption" }, t("Up to %1 runs at once.", MOST));
    const focused = this.list.querySelector<HTMLInputElement>("input:focus")?.value;
    this.list.replaceChildren(...(rows.length > 0 ? [...rows, most] : [none]));
    this.limit();
    for (const box of this.list.querySelectorAll("input")) if (box.value === focused) box.focus();
  }

  private row(choice: Choice): HTMLElement {
    const box = h("input", { type: "checkbox", value: choice.id });
    box.checked = this.chosen.has(choice.id);
    box.addEventListener("input", () => {
      this.choose(choice, box.checked);
    });
    const name = h("span", { class: "tos-others-name", title: choice.name }, choice.name);
    return h("label", {}, box, name, h("span", { class: "tos-others-detail" }, choice.detail));
  }

  private choose(choice: Choice, wanted: boolean): void {
    const before = this.chosen.get(choice.id);
    if (wanted && !before) {
      const taken = new Set(this.all.map(({ place }) => place));
      const place = Array.from({ length: MOST }, (_, i) => i).find((i) => !taken.has(i)) ?? 0;
      this.chosen.set(choice.id, new Other(choice, place, this.state.changed));
    } else if (!wanted && before) {
      before.close();
      this.chosen.delete(choice.id);
      this.state.hidden.delete(choice.id);
    }
    this.limit();
    this.label();
    this.state.changed();
  }

  private limit(): void {
    const full = this.chosen.size >= MOST;
    for (const box of this.list.querySelectorAll("input")) box.disabled = full && !box.checked;
  }

  private label(): void {
    const { size } = this.chosen;
    setText(this.button, size === 0 ? t("+ runs") : tn("+%1 run", "+%1 runs", size));
  }
}
