import { describe, expect, it, vi } from "vitest";

import type { Parts } from "../src/view/model";
import { SILENCE } from "../src/view/run-view";
import view from "../src/widget";
import { buffers, FakeModel, FakeIntersectionObserver, Observer, pair, parts } from "./fakes";
import { eachWithAView, textOf, type ViewFixture } from "./view-fixture";

vi.mock("uplot", () => import("./fake-uplot"));

let page: ViewFixture["page"];
let models: ViewFixture["models"];
let root: ViewFixture["root"];
let destroy: ViewFixture["destroy"];
eachWithAView((fixture) => ({ page, models, root, destroy } = fixture));

function snapshot(losses: number[], run: Partial<Parts["run"]> = {}, seq = 1): void {
  models.stream.emit({ type: "snapshot", seq, state: parts(losses, run) }, buffers(losses));
}

const text = (selector: string): string => textOf(root, selector);

describe("a view", () => {
  it("says how many times fewer bytes travel than without a codec", () => {
    snapshot([5, 4, 3, 2, 1]);
    page.frame();
    expect(text('[data-tos="settings"]')).toContain("10 B (÷\u00a04.0)");
    snapshot([1], {}, 2);
    page.frame();
    expect(text('[data-tos="settings"]')).toContain("10 BParameters");
  });

  it("begins with what the model is worth that the user gets", () => {
    const state = parts([2, 1]);
    state.totals.validation = { accuracy: 0.875, loss: 0.4 };
    models.stream.emit({ type: "snapshot", seq: 1, state }, buffers([2, 1]));
    page.frame();
    expect(text(".tos-facts")).toMatch(/^val accuracy 0.875 val loss 0.4 loss 1 /);
    expect(text('[data-tos="status"]')).toContain("validation accuracy 0.875");
  });

  it("says hello and that it waits", () => {
    expect(models.control.sent).toEqual([{ type: "hello", view: expect.any(String) as string }]);
    expect(text(".tos-notice")).toBe("Waiting for the kernel …");
    expect(root.dataset.state).toBe("waiting");
  });

  it("shows a snapshot, and its state and milestones as attributes", () => {
    snapshot([2, 1]);
    expect(root.dataset).toMatchObject({ state: "running", milestones: "2" });
    // Without a line of its own, an unseen view could not be scrolled to.
    const notice = root.querySelector<HTMLElement>(".tos-notice");
    expect([notice?.hidden, text(".tos-notice")]).toEqual([false, "Drawing …"]);
    page.frame();
    expect(notice?.hidden).toBe(true);
    expect(text(".tos-title")).toBe("Run 3");
    expect(root.querySelectorAll('[data-tos="workers"] tbody th[scope="row"]')).toHaveLength(2);
    const chart = root.querySelector('[data-tos="loss-chart"] [role="img"]');
    expect(chart?.getAttribute("aria-label")).toContain("now 1");
  });

  it("draws a run of an older kernel, which does not say what it obeys, without controls", () => {
    snapshot([1], { actions: undefined });
    page.frame();
    expect(text(".tos-title")).toBe("Run 3");
    expect(root.querySelector<HTMLElement>('[data-tos="pause"]')?.hidden).toBe(true);
    expect(root.querySelectorAll(".tos-forms > *")).toHaveLength(0);
    expect(root.querySelector<HTMLElement>('[data-tos="steer"]')?.hidden).toBe(true);
  });

  it("says hello again on a gap, once until it is served", () => {
    snapshot([1]);
    const delta = { type: "delta", seq: 9, state: {} };
    models.stream.emit(delta);
    models.stream.emit({ ...delta, seq: 10 });
    expect(models.control.sent).toHaveLength(2);
    snapshot([1], {}, 11);
    models.stream.emit({ ...delta, seq: 13 });
    expect(models.control.sent).toHaveLength(3);
  });

  it("repeats a lost hello, ever more patiently", () => {
    vi.advanceTimersByTime(6000);
    expect(models.control.sent).toHaveLength(2);
    vi.advanceTimersByTime(6000);
    expect(models.control.sent).toHaveLength(2);
    vi.advanceTimersByTime(6000);
    expect(models.control.sent).toHaveLength(3);
  });

  it("says when the kernel falls silent, unless the run has ended", () => {
    snapshot([1]);
    page.frame();
    vi.advanceTimersByTime(SILENCE + 1500);
    expect(text(".tos-told")).toContain("does not answer");
    expect(text('[data-tos="status"]')).toContain("does not answer");
    snapshot([1], { state: "finished" }, 2);
    vi.advanceTimersByTime(2 * SILENCE);
    expect(text(".tos-told")).toBe("");
  });

  it("steers over the control channel", () => {
    snapshot([1]);
    page.frame();
    root.querySelector<HTMLElement>('[data-tos="pause"]')?.click();
    expect(models.control.sent.at(-1)).toEqual({
      ...{ type: "command", id: 1, command: "pause", arguments: {} },
    });
    models.control.emit({ type: "answer", id: 1, ok: true, when: "now" });
    expect(text(".tos-told")).toBe("asked: pause; applies at once");
  });

  it("shows the user's own lines first when a worker failed", () => {
    const error = {
      ...{ message: "ValueError: no", where: "executor 1 (node), partition 2" },
      ...{ frames: ["line 12"], rest: "<b>java</b>" },
    };
    snapshot([1], { state: "failed", error });
    page.frame();
    expect(text('[data-tos="error"] p')).toBe("ValueError: no");
    expect(text('[data-tos="error"] .tos-caption')).toBe("On executor 1 (node), partition 2.");
    expect(text('[data-tos="error"] pre')).toBe("line 12");
    expect(text('[data-tos="error"] details pre')).toBe("<b>java</b>");
    expect(text('[data-tos="status"]')).toContain("Run 3 has failed");
    // In the place of the numbers it is told in two lines, and no line of the view is added.
    const shown = (selector: string) => root.querySelector<HTMLElement>(selector)?.hidden === false;
    expect([shown(".tos-brief"), shown(".tos-learned")]).toEqual([true, false]);
    expect(text(".tos-brief")).toBe("ValueError: noline 12Details");
    root.querySelector<HTMLElement>('[data-tos="details"]')?.click();
    const tab = root.querySelector('[data-tab="error"]');
    expect(tab?.getAttribute("aria-selected")).toBe("true");
  });

  it("says why it was stopped", () => {
    const reason = "validation accuracy 0.981 > 0.98";
    snapshot([1], { state: "stopped", reason });
    page.frame();
    expect(text(".tos-epoch")).toContain(reason);
    expect(text('[data-tos="status"]')).toContain(reason);
  });

  it("says what its run has waited for too long, until that comes or the run ends", () => {
    const hidden = () => root.querySelector<HTMLElement>('[data-tos="waits"]')?.hidden;
    const waits = ["The run waits for partition 3."];
    snapshot([1]);
    page.frame();
    expect(hidden()).toBe(true);
    snapshot([1], { waits }, 2);
    page.frame();
    expect(hidden()).toBe(false);
    expect(text('[data-tos="waits"]')).toBe("◔ The run waits for partition 3.");
    expect(text('[data-tos="status"]')).toContain("The run waits for partition 3.");
    snapshot([1], { waits, state: "failed" }, 3);
    page.frame();
    expect(hidden()).toBe(true);
  });

  it("is called as its run is, and says how far it is and how long it takes", () => {
    snapshot([1], { name: "first" });
    page.frame();
    expect(text(".tos-title")).toBe("first");
    expect(text(".tos-epoch")).toBe("epoch 1 of 4 · about 6.0 s left");
    snapshot([1], { state: "paused" }, 2);
    page.frame();
    expect(text(".tos-epoch")).toBe("epoch 1 of 4 · about 6.0 s left when unpaused");
    snapshot([1], { state: "finished", elapsed: 68 }, 3);
    page.frame();
    expect(text(".tos-epoch")).toBe("4 epochs in 1 min 08 s");
  });

  it("says before the first milestone what it waits for", () => {
    const steps = (...all: string[]): string =>
      all.map((step) => step.replaceAll(" ", "\u00a0")).join("   ");
    snapshot([], { state: "starting", partitions: 3 });
    page.frame();
    expect(text(".tos-epoch")).toBe(steps("✓ captured", "◔ workers 2 of 3", "· first milestone"));
    snapshot([], { state: "starting", partitions: 2 }, 2);
    page.frame();
    expect(text(".tos-epoch")).toBe(steps("✓ captured", "✓ workers 2 of 2", "◔ first milestone"));
    snapshot([], { state: "queued", waits: ["run 1 holds both slots"] }, 3);
    page.frame();
    expect(text(".tos-state")).toBe("◔ queued");
    expect(text(".tos-epoch")).toBe("run 1 holds both slots");
  });

  it("offers lines of code to copy once its run has ended, in place of the controls", () => {
    const shown = (name: string) =>
      root.querySelector<HTMLElement>(`[data-tos="${name}"]`)?.closest("[hidden]") === null;
    snapshot([1], { name: "first" });
    page.frame();
    expect([shown("pause"), shown("next")]).toEqual([true, false]);
    snapshot([1], { name: "first", state: "finished" }, 2);
    page.frame();
    expect([shown("pause"), shown("next")]).toEqual([false, true]);
    expect(text(".tos-next")).toContain('first.save("model.keras")');
    snapshot([1], { name: "no name of a variable", state: "stopped" }, 3);
    page.frame();
    expect(text(".tos-next")).toContain('run.save("model.keras")');
  });

  it("speaks at a change of state and else every 15 s", () => {
    snapshot([2]);
    const first = text('[data-tos="status"]');
    expect(first).toContain("is training: epoch 1 of 4, loss 2");
    snapshot([2, 1], {}, 2);
    expect(text('[data-tos="status"]')).toBe(first);
    snapshot([2, 1], { state: "paused" }, 3);
    expect(text('[data-tos="status"]')).toContain("is paused");
  });

  it("tells that its kernel is gone", async () => {
    const get_model = (): Promise<never> => Promise.reject(new Error("model not found"));
    const stream = new FakeModel({ control: "IPY_MODEL_abc" }, { get_model });
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const el = document.body.appendChild(document.createElement("div"));
    const clean = view.render({ model: stream, el });
    await vi.advanceTimersByTimeAsync(0);
    expect(el.textContent).toContain("is gone");
    expect(el.querySelector("fieldset")?.disabled).toBe(true);
    expect(warn).toHaveBeenCalledOnce();
    clean();
  });
});

describe("keys", () => {
  const heard = (target: Element, modifiers: KeyboardEventInit = {}): boolean => {
    let came = false;
    const listen = (): void => {
      came = true;
    };
    document.body.addEventListener("keydown", listen);
    target.dispatchEvent(new KeyboardEvent("keydown", { key: "d", bubbles: true, ...modifiers }));
    document.body.removeEventListener("keydown", listen);
    return came;
  };

  it("that are typed in any part of it do not reach the notebook", () => {
    snapshot([1]);
    page.frame();
    const parts = root.querySelectorAll("button, input, select, summary, [tabindex]");
    expect(parts.length).toBeGreaterThan(20);
    for (const part of parts) expect(heard(part)).toBe(false);
  });

  it("with Ctrl, Meta or Alt do: they are never typed", () => {
    const button = root.querySelector("button") ?? root;
    expect(heard(button, { ctrlKey: true })).toBe(true);
    expect(heard(button, { metaKey: true })).toBe(true);
    expect(heard(button, { altKey: true })).toBe(true);
  });
});

describe("drawing", () => {
  it("waits until it can be seen", () => {
    const sight = [...Observer.living].find((one) => one instanceof FakeIntersectionObserver);
    sight?.callback([{ isIntersecting: false }]);
    page.frame();
    snapshot([1]);
    page.frame();
    expect(text(".tos-title")).toBe("Run");
    sight?.callback([{ isIntersecting: true }]);
    page.frame();
    expect(text(".tos-title")).toBe("Run 3");
  });

  it("happens once for many messages", () => {
    const frame = vi.spyOn(globalThis, "requestAnimationFrame");
    page.frame();
    frame.mockClear();
    for (let seq = 1; seq < 6; seq++) snapshot([1], {}, seq);
    expect(frame).toHaveBeenCalledTimes(1);
  });
});

describe("the end of a view", () => {
  it("leaves nothing behind", () => {
    snapshot([1]);
    page.frame();
    const removed = vi.spyOn(document, "removeEventListener");
    destroy();
    expect(models.stream.callbacks.size).toBe(0);
    expect(models.control.callbacks.size).toBe(0);
    expect(page.mediaListeners.size).toBe(0);
    expect(Observer.living.size).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
    expect(removed).toHaveBeenCalledWith("visibilitychange", expect.anything());
    expect(document.querySelector(".tos-run")).toBeNull();
  });

  it("before the control channel is found opens none", async () => {
    const other = pair();
    const el = document.body.appendChild(document.createElement("div"));
    view.render({ model: other.stream, el })();
    await vi.advanceTimersByTimeAsync(0);
    expect(other.control.sent).toEqual([]);
    expect(other.control.callbacks.size).toBe(0);
  });
});
