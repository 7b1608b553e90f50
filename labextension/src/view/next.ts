/** What a person does with a run that has ended: lines of code to copy. */

import { h, setText } from "./dom";
import { Drawer } from "./drawer";
import { hasEnded, type RunInfo, type RunModel } from "./model";
import { t } from "./text";
import { nameOf } from "./words";

type Line = [label: string, code: string];

/** Of Python. */
const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except " +
    "finally for from global if import in is lambda nonlocal not or pass raise return try while " +
    "with yield"
  ).split(" "),
);

/** A run is called as the variable that holds it, if it can be one. */
function variable({ name }: RunInfo): string {
  return name && /^[A-Za-z_]\w*$/.test(name) && !KEYWORDS.has(name) ? name : "run";
}

function lines(run: RunInfo): Line[] {
  const it = variable(run);
  const again: Line = [t("Train on, if it has a checkpoint"), `%tos_resume FOLDER/${run.id}`];
  if (run.state === "lost") return [again];
  if (run.state === "failed") return [[t("The whole history"), `${it}.history`], again];
  return [
    [t("Evaluate"), `${it}.evaluate(test)`],
    [t("Save the model"), `${it}.save("model.keras")`],
    [t("Compare with another run"), `tos.compare(${it}, other)`],
    [t("A figure of it"), `${it}.figure()`],
    [t("A report"), `${it}.report("report.html")`],
    [t("A model card"), `print(${it}.model_card("model_card.md"))`],
    [t("History as CSV"), `${it}.history.to_csv("history.csv")`],
    again,
  ];
}

export class Next {
  readonly button = h("button", { "data-tos": "next", hidden: true });
  readonly drawer: Drawer;
  private readonly list = h("div", { class: "tos-drawer-body tos-next" });
  private shown = "";

  constructor(moved: () => void) {
    this.button.textContent = `${t("Next")} ▾`;
    this.drawer = new Drawer(this.button, [this.list], moved);
  }

  draw({ run }: RunModel): void {
    const ended = run !== null && hasEnded(run.state);
    this.button.hidden = !ended;
    if (!ended) {
      this.drawer.open(false);
      return;
    }
    this.drawer.name(t("What next with %1", nameOf(run)));
    const all = lines(run);
    if (JSON.stringify(all) === this.shown) return;
    this.shown = JSON.stringify(all);
    this.list.replaceChildren(...all.map(row));
  }
}

function row([label, code]: Line): HTMLElement {
  const copy = h("button", { "aria-label": t("Copy: %1", label) }, t("Copy"));
  copy.addEventListener("click", () => {
    copied(code).then(
      () => {
        setText(copy, t("Copied"));
      },
      () => {
        // The page may not write there; the text can be marked by hand.
        getSelection()?.selectAllChildren(line);
      },
    );
  });
  const line = h("code", { translate: "no" }, code);
  return h("div", { class: "tos-next-row" }, h("span", {}, label), line, copy);
}

/** Rejects, too, where the page has no clipboard: without HTTPS there is none. */
async function copied(code: string): Promise<void> {
  await navigator.clipboard.writeText(code);
}
