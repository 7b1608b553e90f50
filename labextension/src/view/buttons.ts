/** The buttons that act on the run as a whole. Each keeps its box, whatever it says. */

import { h, setAttribute } from "./dom";
import { t } from "./text";

/** Milliseconds in which a click is meant for what the button was before. */
export const SETTLE = 400;
/** Milliseconds for which the question stands. */
export const ARMED = 3000;

/** Texts in one place: the box is as wide as the widest, and only one is seen or spoken. */
class Faces {
  private readonly faces: HTMLElement[];

  constructor(
    readonly button: HTMLButtonElement,
    texts: string[],
  ) {
    this.faces = texts.map((text) => h("span", {}, ...signed(text)));
    button.classList.add("tos-faces");
    button.append(...this.faces);
    this.show(0);
  }

  show(index: number): void {
    this.faces.forEach((face, i) => {
      setAttribute(face, "aria-hidden", String(i !== index));
    });
  }
}

/** A sign and its words, which make way where there is little room. */
export function signed(text: string): (Node | string)[] {
  const at = text.indexOf(" ");
  return [text.slice(0, at), h("span", { class: "tos-word" }, text.slice(at))];
}

function create(name: string, noteId?: string): HTMLButtonElement {
  return h("button", { "data-tos": name, "aria-describedby": noteId });
}

/** A key that is held down is one press. */
function pressedOnce(button: HTMLButtonElement): void {
  button.addEventListener("keydown", (event) => {
    if (event.repeat) event.preventDefault();
  });
}

/** Pause while the run trains, unpause while it is paused. */
export class Toggle {
  readonly button: HTMLButtonElement;
  command: "pause" | "unpause" = "pause";
  private readonly faces: Faces;
  private timer = 0;

  constructor(press: () => void) {
    this.button = create("pause");
    pressedOnce(this.button);
    this.faces = new Faces(this.button, [`‖ ${t("Pause")}`, `▶ ${t("Unpause")}`]);
    this.button.addEventListener("click", () => {
      if ("fresh" in this.button.dataset) return;
      press();
      this.settle();
    });
  }

  draw(state: string): void {
    const command = state === "paused" ? "unpause" : "pause";
    if (command === this.command) return;
    this.command = command;
    this.button.dataset.tos = command;
    this.faces.show(command === "pause" ? 0 : 1);
    this.settle();
  }

  /** The second click of two is meant for what the button was before the first. */
  private settle(): void {
    this.button.dataset.fresh = "";
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      delete this.button.dataset.fresh;
    }, SETTLE);
  }

  destroy(): void {
    window.clearTimeout(this.timer);
  }
}

/** Of a button whose act cannot be undone: the first press asks, a second one acts. */
export class Question {
  private timer = 0;

  /** `asks` is called when the question appears or goes. */
  constructor(
    private readonly button: HTMLButtonElement,
    private readonly press: () => void,
    private readonly asks: (asking: boolean) => void,
  ) {
    pressedOnce(button);
    button.addEventListener("click", this.click);
    button.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.withdraw();
    });
  }

  readonly withdraw = (): void => {
    window.clearTimeout(this.timer);
    if (!("armed" in this.button.dataset)) return;
    delete this.button.dataset.armed;
    this.asks(false);
  };

  destroy(): void {
    window.clearTimeout(this.timer);
  }

  private readonly click = (): void => {
    const { armed } = this.button.dataset;
    if (this.button.getAttribute("aria-disabled") === "true" || armed === "soon") return;
    if (armed === undefined) {
      this.ask();
      return;
    }
    this.withdraw();
    this.press();
  };

  private ask(): void {
    this.button.dataset.armed = "soon";
    this.timer = window.setTimeout(() => {
      this.button.dataset.armed = "now";
      this.timer = window.setTimeout(this.withdraw, ARMED - SETTLE);
    }, SETTLE);
    this.asks(true);
  }
}

/** Asks first, in its own box. */
export class Stop {
  readonly button: HTMLButtonElement;
  private readonly faces: Faces;
  private readonly question: Question;

  /** `asks` is called when the question appears or goes. */
  constructor(noteId: string, press: () => void, asks: (asking: boolean) => void) {
    this.button = create("stop", noteId);
    this.faces = new Faces(this.button, [`■ ${t("Stop")}`, `■ ${t("Stop it?")}`]);
    this.question = new Question(this.button, press, (asking) => {
      this.faces.show(asking ? 1 : 0);
      asks(asking);
    });
  }

  draw(usable: boolean): void {
    if (!usable) this.question.withdraw();
  }

  destroy(): void {
    this.question.destroy();
  }
}
