/** A form that lets something go wrong on purpose: slow or kill a worker, for teaching. */

import { h, setAttribute, setText, uniqueId } from "./dom";
import { shortened } from "./format";
import type { RunModel, Worker } from "./model";
import { t } from "./text";

/** Seconds for which a worker is slowed from here: no user leaves that on by accident. */
export const SECONDS = 60;

/** Masters that end a job with its first failed task. */
const ONCE = /^local(\[(\d+|\*)\])?$/;

/** Characters of an executor's name; the table of workers has all of it. */
const MOST = 32;

type Arguments = Record<string, unknown>;

export class Chaos {
  readonly note: HTMLElement;
  readonly element: HTMLElement;
  readonly slow: HTMLButtonElement;
  private readonly kill: HTMLButtonElement;
  private readonly off: HTMLButtonElement;
  private readonly who = h("select");
  private readonly factor = h("input", {
    ...{ type: "number", min: 1, max: 1000, step: "any", size: 6, required: true, value: 5 },
  });

  /** `act` is given the arguments of a command. */
  constructor(act: (arguments_: Arguments) => void) {
    const ids = ["chaos-who", "chaos-factor", "chaos-note"].map(uniqueId);
    [this.who.id, this.factor.id] = ids;
    this.note = h("span", { id: ids[2], class: "tos-note" });
    const button = (type: string, text: string, name: string): HTMLButtonElement =>
      h("button", { type, "aria-label": name, "aria-describedby": ids[2] }, text);
    this.slow = button("submit", t("Slow"), t("Slow the worker"));
    this.kill = button("button", t("Kill"), t("Kill the worker"));
    this.off = button("button", t("Off"), t("Chaos off"));
    const label = (id: string, text: string): HTMLElement =>
      h("label", { for: id, class: "tos-hidden" }, text);
    const form = h(
      "form",
      { class: "tos-chaos-form" },
      ...[label(ids[0], t("Worker")), this.who],
      ...[label(ids[1], t("Times slower")), h("span", { "aria-hidden": "true" }, "×"), this.factor],
      ...[this.slow, this.kill, this.off],
    );
    this.element = h(
      "details",
      { class: "tos-chaos", "data-tos": "chaos" },
      h("summary", {}, t("Chaos, for teaching")),
      form,
      this.note,
      h("p", { class: "tos-caption" }, limits()),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const amount = Number(this.factor.value);
      act({ what: "slow", amount, ...this.chosen(), for_seconds: SECONDS });
    });
    this.kill.addEventListener("click", () => {
      if (this.kill.getAttribute("aria-disabled") !== "true")
        act({ what: "kill", ...this.chosen() });
    });
    this.off.addEventListener("click", () => {
      if (this.off.getAttribute("aria-disabled") !== "true") act({ what: "off" });
    });
  }

  /** What became of what was asked. */
  tell(text: string): void {
    setText(this.note, text);
  }

  /** `reason` says why nothing can be asked for; empty if it can. */
  draw({ run, workers }: RunModel, reason: string): void {
    this.offer(workers.filter(({ state }) => state !== "done"));
    const calm = run?.chaos.length ? "" : t("chaos is off");
    const fatal = ONCE.test(run?.master ?? "")
      ? t("Spark does not retry tasks on %1; connect to local[2,4]", run?.master ?? "")
      : "";
    for (const [button, why] of [
      [this.slow, reason],
      [this.kill, reason || fatal],
      [this.off, reason || calm],
    ] as const) {
      setAttribute(button, "aria-disabled", String(why !== ""));
      setAttribute(button, "title", why);
    }
  }

  private offer(workers: Worker[]): void {
    const choices = new Map<string, string>();
    for (const { partition, executor } of workers.toSorted((a, b) => a.partition - b.partition)) {
      choices.set(
        `worker:${partition}`,
        t("partition %1 (executor %2)", partition, shortened(executor, MOST)),
      );
    }
    for (const executor of new Set(workers.map((worker) => worker.executor))) {
      choices.set(`executor:${executor}`, t("all of executor %1", shortened(executor, MOST)));
    }
    const known = [...choices].flat().join();
    if (this.who.dataset.choices === known) return;
    const before = this.who.value;
    this.who.dataset.choices = known;
    this.who.replaceChildren(...[...choices].map(([value, text]) => h("option", { value }, text)));
    if (choices.has(before)) this.who.value = before;
  }

  private chosen(): Arguments {
    const [kind, ...rest] = this.who.value.split(":");
    const name = rest.join(":");
    if (kind === "worker") return { worker: Number(name) };
    // Before anybody has joined it is one worker that the kernel draws.
    return kind === "executor" ? { executor: name } : {};
  }
}

function limits(): string {
  return t(
    "A slowdown ends after %1 s. A kill strikes once, and Spark retries the task. Chaos ends with the run.",
    SECONDS,
  );
}
