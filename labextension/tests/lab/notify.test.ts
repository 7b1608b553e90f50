import { Notification } from "@jupyterlab/apputils";
import { beforeEach, describe, expect, it, vi } from "vitest";

import { Notifier, READ } from "../../src/lab/notify";
import { mark } from "../../src/lab/run-views";
import { DEFAULTS, type Settings, type SettingsModel } from "../../src/lab/settings";
import { FakeKernel, FakeKernels, row, trans } from "./documents";

vi.mock("@jupyterlab/apputils", () => ({
  Notification: { success: vi.fn(), warning: vi.fn(), error: vi.fn() },
}));

const success = vi.mocked(Notification.success);
const failure = vi.mocked(Notification.error);
const openRun = vi.fn();

class Desktop {
  static permission = "granted";
  static readonly requestPermission = vi.fn(() => Promise.resolve("granted"));
  static readonly shown: Desktop[] = [];
  onclick: (() => void) | null = null;
  readonly close = vi.fn();

  constructor(
    readonly title: string,
    readonly options: { body: string; tag: string },
  ) {
    Desktop.shown.push(this);
  }
}

let kernel: FakeKernel;
let kernels: FakeKernels;

function notifier(changes: Partial<Settings> = {}): Notifier {
  const settings = { current: { ...DEFAULTS, ...changes } } as unknown as SettingsModel;
  return new Notifier(kernels.real, settings, trans, openRun);
}

/** The run goes on to this. */
function become(state: string, changes = {}): void {
  kernel.show(row({ state, ...changes }));
  kernels.emit();
}

beforeEach(() => {
  vi.clearAllMocks();
  vi.stubGlobal("Notification", Desktop);
  Desktop.permission = "granted";
  Desktop.shown.length = 0;
  kernel = new FakeKernel();
  kernels = new FakeKernels([kernel]);
  kernel.show(row());
});

describe("the end of a run", () => {
  it("is told once, on the page and on the desktop", () => {
    notifier();
    become("finished");
    become("finished");
    const text = "Run 3 of one.ipynb has finished after 1 min 40 s. Loss 0.31.";
    expect(success).toHaveBeenCalledOnce();
    expect(success.mock.calls[0][0]).toBe(text);
    expect(success.mock.calls[0][1]?.autoClose).toBe(READ);
    expect(Desktop.shown.map(({ options }) => options)).toEqual([{ body: text, tag: "run-3" }]);
  });

  it("that failed says why", () => {
    notifier();
    become("failed", { error: "ValueError: 7" });
    expect(failure.mock.calls[0][0]).toBe(
      "Run 3 of one.ipynb has failed after 1 min 40 s. ValueError: 7",
    );
    expect(failure.mock.calls[0][1]?.autoClose).toBe(false);
    expect(success).not.toHaveBeenCalled();
  });

  it("leads to the run", () => {
    notifier();
    become("finished");
    const action = success.mock.calls[0][1]?.actions?.[0];
    expect(action?.label).toBe("Open");
    action?.callback(new MouseEvent("click"));
    vi.spyOn(window, "focus").mockReturnValue();
    Desktop.shown[0].onclick?.();
    expect(openRun.mock.calls).toEqual([
      [kernel, "run-3"],
      [kernel, "run-3"],
    ]);
    expect(Desktop.shown[0].close).toHaveBeenCalled();
  });

  it("says what the model is worth, and is amber where it learned badly", () => {
    notifier();
    const warning = { kind: "overfitting", epoch: 2, factor: null } as const;
    become("finished", { name: "first", validation: { accuracy: 0.889 }, warning });
    expect(vi.mocked(Notification.warning).mock.calls[0][0]).toBe(
      "first of one.ipynb has finished after 1 min 40 s. " +
        "Validation accuracy 0.889, loss 0.31, overfits since epoch 2.",
    );
    expect(success).not.toHaveBeenCalled();
  });

  it("by a person's hand is told to nobody, by a condition it is", () => {
    notifier();
    become("stopped");
    expect(success).not.toHaveBeenCalled();
    become("running");
    become("stopped", { reason: "validation accuracy 0.99 > 0.98" });
    expect(success.mock.calls[0][0]).toContain("Validation accuracy 0.99 > 0.98, loss 0.31.");
  });

  it("is told to nobody who looks at its view", () => {
    const view = document.createElement("div");
    mark(view, "run-3");
    document.body.append(view);
    vi.spyOn(document, "hasFocus").mockReturnValue(true);
    const box = vi.spyOn(view, "getBoundingClientRect");
    box.mockReturnValue(new DOMRect(0, 100, 800, 500));
    notifier();
    become("finished");
    expect(success).not.toHaveBeenCalled();
    become("running");
    box.mockReturnValue(new DOMRect(0, -900, 800, 500));
    become("finished");
    expect(success).toHaveBeenCalledOnce();
    view.remove();
  });

  it("that nobody saw active is old news", () => {
    kernel.show(row({ state: "failed" }));
    notifier();
    become("failed");
    expect(failure).not.toHaveBeenCalled();
  });

  it("is told for runs of kernels that are not in front, too", () => {
    kernels.current = null;
    notifier();
    become("finished");
    expect(success).toHaveBeenCalledOnce();
  });

  it.each([
    ["never", "failed", 0],
    ["failed", "failed", 1],
    ["failed", "finished", 0],
    ["failed", "stopped", 0],
    ["always", "finished", 1],
  ] as const)("with the setting %s is told if it is %s: %i", (notify, state, times) => {
    notifier({ notify });
    become(state);
    expect(success.mock.calls.length + failure.mock.calls.length).toBe(times);
  });

  it.each([
    [59, 0],
    [60, 1],
  ])("after %i s is told %i times", (elapsed, times) => {
    notifier();
    become("finished", { elapsed });
    expect(success).toHaveBeenCalledTimes(times);
  });
});

describe("the desktop", () => {
  it.each(["default", "denied"])("hears nothing while permission is %s", (permission) => {
    Desktop.permission = permission;
    notifier();
    become("finished");
    expect(success).toHaveBeenCalledOnce();
    expect(Desktop.shown).toHaveLength(0);
  });

  it("may refuse, and the page's own notice stands", () => {
    const throws = function (): never {
      throw new TypeError("Illegal constructor");
    };
    vi.stubGlobal("Notification", Object.assign(throws, { permission: "granted" }));
    const warning = vi.spyOn(console, "warn").mockReturnValue();
    notifier();
    become("finished");
    expect(success).toHaveBeenCalledOnce();
    expect(warning).toHaveBeenCalledOnce();
  });

  it.each([
    ["always", "default", 1],
    ["never", "default", 0],
    ["always", "denied", 0],
    ["always", "granted", 0],
  ] as const)("with %s and %s is asked %i times", (notify, permission, times) => {
    Desktop.permission = permission;
    const made = notifier({ notify });
    expect(Desktop.requestPermission).not.toHaveBeenCalled();
    made.askPermission();
    expect(Desktop.requestPermission).toHaveBeenCalledTimes(times);
  });
});
