/** Buttons and fields that steer the run, and one line that says what became of it. */

import { signed, Stop, Toggle } from "./buttons";
import { Chaos } from "./chaos";
import { h, setAttribute } from "./dom";
import { Drawer } from "./drawer";
import { Feedback } from "./feedback";
import { number } from "./format";
import { hasEnded, type RunModel } from "./model";
import { prefer, preferred } from "./preferences";
import {
  type Answer,
  type Ask,
  CHAOS,
  isOffered,
  note,
  type Request,
  STOP,
  TOGGLE,
  unavailable,
} from "./requests";
import { Steer, type Wanted } from "./steer";
import { t } from "./text";
import { nameOf, word } from "./words";

export type Send = (command: string, arguments_: Record<string, unknown>) => number;

/** Commands that have controls of their own here; all others have fields to steer by. */
const OWN = [TOGGLE, STOP, CHAOS].flatMap(({ commands }) => commands);
const RATE: Ask = { commands: ["set"], setting: "learning_rate" };
const STEERS = "steer";

export class Controls {
  /** Beside the run's name. */
  readonly buttons: HTMLFieldSetElement;
  readonly feedback = new Feedback();
  readonly drawer: Drawer;
  private readonly fields = h("fieldset", { class: "tos-drawer-body" });
  private readonly toggle: Toggle;
  private readonly stop: Stop;
  private readonly steering = h(
    "button",
    { "data-tos": "steer", class: "tos-steer" },
    ...signed(`⚙ ${t("Steer")}`),
  );
  private readonly steer: Steer;
  private readonly chaos: Chaos;
  /** Of the chaos that was asked for last. */
  private chaosRequest: Request | null = null;
  private readonly requests = new Map<number, Request>();
  /** Whether the stop button asks for its second click. */
  private asking = false;
  private notice = "";
  private model: RunModel | null = null;
  private frozen = false;
  /** Whether the drawer is to open once there is a run. */
  private wanted = false;

  /** `moved` is called when something takes another part of the view's width. */
  constructor(
    private readonly send: Send,
    private readonly now: () => number,
    moved: () => void,
  ) {
    this.toggle = new Toggle(() => {
      this.ask(TOGGLE, this.toggle.command);
    });
    this.stop = new Stop(
      this.feedback.id,
      () => {
        this.ask(STOP, "stop");
      },
      (asking) => {
        this.asking = asking;
        this.drawNotes();
      },
    );
    this.steer = new Steer(this.submit, now);
    this.chaos = new Chaos((arguments_) => {
      const run = this.model?.run;
      if (!run || unavailable(run, CHAOS) !== "") return;
      const what = t("chaos");
      [this.chaosRequest] = this.submit([{ command: "chaos", arguments: arguments_, what }]);
      this.drawNotes();
    });
    const legend = (text: string): HTMLElement => h("legend", { class: "tos-hidden" }, text);
    this.fields.append(legend(t("Settings")), this.steer.element, this.chaos.element);
    this.drawer = new Drawer(this.steering, [this.fields], () => {
      prefer(STEERS, this.drawer.isOpen ? "open" : "");
      moved();
    });
    this.buttons = h("fieldset", { class: "tos-buttons" }, legend(t("Controls")));
    this.buttons.append(this.toggle.button, this.steering, this.stop.button);
  }

  /** Open it beside the charts, where it was left open; `room` says whether there is any. */
  restore(room: boolean): void {
    if (room && preferred(STEERS) === "open") this.show();
  }

  /** Open the drawer, now or once there is a run that can be steered. */
  show(): void {
    const run = this.model?.run;
    this.wanted = run === undefined || run === null;
    if (run && !hasEnded(run.state)) this.drawer.open(true);
  }

  /** The kernel's answer to a command that was sent from here. */
  answer(id: number, answer: Answer): void {
    const request = this.requests.get(id);
    if (request) request.answer = answer;
    this.requests.delete(id);
    this.drawNotes();
  }

  destroy(): void {
    this.toggle.destroy();
    this.stop.destroy();
  }

  /** No kernel would hear a command now. */
  freeze(frozen: boolean): void {
    this.frozen = this.buttons.disabled = this.fields.disabled = frozen;
    if (this.model) this.draw(this.model);
  }

  /** Something is wrong with the connection, and more important than what was asked. */
  tell(notice: string): void {
    this.notice = notice;
    this.drawNotes();
  }

  draw(model: RunModel): void {
    this.model = model;
    const { run, commands } = model;
    if (run === null) return;
    const ended = hasEnded(run.state);
    this.buttons.disabled = this.fields.disabled = ended || this.frozen;
    this.buttons.hidden = ended;
    if (ended) this.drawer.open(false);
    this.drawer.name(t("Steer %1", nameOf(run)));
    this.toggle.draw(run.state);
    const shown: [Ask, HTMLElement][] = [
      [TOGGLE, this.toggle.button],
      [STOP, this.stop.button],
    ];
    for (const [ask, button] of shown) {
      button.hidden = !isOffered(run, ask);
      const reason = unavailable(run, ask);
      // Not `disabled`: a button that was just pressed would lose the keyboard's focus.
      setAttribute(button, "aria-disabled", String(reason !== ""));
      setAttribute(button, "title", reason);
    }
    this.steering.hidden = !(run.actions ?? []).some(
      ({ name }) => !OWN.slice(0, -1).includes(name),
    );
    this.stop.draw(!this.buttons.disabled && run.state !== "stopping");
    this.steer.draw(run, commands, OWN);
    this.chaos.element.hidden = !isOffered(run, CHAOS);
    this.chaos.draw(model, unavailable(run, CHAOS));
    if (this.wanted) this.show();
    this.drawNotes();
  }

  /** Also called as time passes: an answer that is late says so. */
  drawNotes(): void {
    const { model } = this;
    if (model === null) return;
    const question = this.asking ? t("Click again to stop for good; weights are kept.") : "";
    this.feedback.draw(model, question, this.notice, this.now());
    this.chaos.tell(note(CHAOS, this.chaosRequest, model.commands, this.now()));
    this.steer.redraw();
  }

  setRate(rate: number): void {
    const run = this.model?.run;
    const reason = run ? unavailable(run, RATE) : "";
    if (!run || this.frozen || reason !== "" || this.waits("set")) return;
    const what = t("learning rate %1", number(rate));
    this.submit([{ command: "set", arguments: { learning_rate: rate }, what }]);
  }

  private ask(ask: Ask, command: string): void {
    const run = this.model?.run;
    if (!run || unavailable(run, ask) !== "" || this.waits(command)) return;
    this.submit([{ command, arguments: {}, what: word(command) }]);
    this.drawNotes();
  }

  /** Whether the kernel has not answered yet to the same command. */
  private waits(command: string): boolean {
    return [...this.requests.values()].some((request) => request.command === command);
  }

  private readonly submit = (wanted: readonly Wanted[]): Request[] => {
    const before = this.model?.commands.at(-1)?.time ?? -1;
    const sent = wanted.map((one) => {
      const request: Request = {
        ...{ command: one.command, sent: this.now(), before, answer: null },
      };
      this.requests.set(this.send(one.command, one.arguments), request);
      return { what: one.what, request };
    });
    this.feedback.send(sent);
    this.drawNotes();
    return sent.map(({ request }) => request);
  };
}
