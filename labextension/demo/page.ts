/** Shows the built view with a pretended kernel. Options are in the address; see README.md. */

import { FakeKernel } from "./kernel";

type Callback = (content: unknown, buffers?: DataView[]) => void;

interface Built {
  default: { render: (context: { model: unknown; el: HTMLElement }) => () => void };
}

/** As much of a widget's model as a view may use. */
class FakeModel {
  private callbacks: Callback[] = [];

  constructor(
    private readonly received: Callback,
    private readonly values: Record<string, unknown> = {},
    readonly widget_manager: unknown = null,
  ) {}

  get(name: string): unknown {
    return this.values[name];
  }
  on(_: string, callback: Callback): void {
    this.callbacks.push(callback);
  }
  off(_: string, callback: Callback): void {
    this.callbacks = this.callbacks.filter((other) => other !== callback);
  }
  send(content: unknown): void {
    this.received(content);
  }
  emit(content: unknown, buffers: DataView[] = []): void {
    for (const callback of this.callbacks) callback(content, buffers);
  }
}

interface Sent {
  type: string;
  id: number;
  command: string;
  arguments: Record<string, unknown>;
}

const query = new URLSearchParams(window.location.search);
const number = (name: string, otherwise: number): number => Number(query.get(name) ?? otherwise);
const kernel = new FakeKernel({
  ...{ workers: number("workers", 4), executors: number("executors", 2), rate: number("rate", 5) },
  together: query.has("together"),
});

function prepare(): void {
  kernel.advance(number("seconds", 25));
  if (query.has("plain")) return;
  kernel.worker(1).note = "behind: 41 % of the median pace";
  kernel.marks.push({ time: kernel.time - 3, worker: 1, kind: "retry", text: "attempt 2" });
  kernel.marks.push({ time: kernel.time - 1, worker: 2, kind: "lost", text: "connection closed" });
  kernel.log.push({ time: 3.2, level: "info", text: "Worker joined on partition 2." });
  kernel.log.push({ time: 17, level: "warning", text: "Executor 1 lost partition 2: retried." });
  if (query.get("state") === "failed") fail();
}

function fail(): void {
  kernel.state = "failed";
  kernel.worker(2).state = "lost";
  kernel.error = {
    message: "ValueError: Expected 784 columns in a record, got 783.",
    where: "executor 1 (node), partition 2, attempt 0, epoch 3, batch 14",
    frames: ['File "<cell 7>", line 12, in normalise', "    return row.reshape(28, 28) / 255.0"],
    rest: Array.from({ length: 30 }, (_, i) => `  at org.apache.spark.Frame${i}`).join("\n"),
  };
}

const control = new FakeModel((content) => {
  const sent = content as Sent;
  if (sent.type === "hello") {
    const { content: snapshot, buffers } = kernel.message("snapshot");
    stream.emit(snapshot, buffers);
  } else if (sent.type === "command") {
    setTimeout(
      () => {
        obey(sent);
      },
      number("delay", 50),
    );
  }
});
const stream = new FakeModel(
  () => undefined,
  { control: "IPY_MODEL_c" },
  {
    get_model: () => Promise.resolve(control),
  },
);

function obey({ id, command, arguments: values }: Sent): void {
  const changes = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, String(value)]),
  );
  const ok = values.combiner !== "mean_weight";
  const text = ok ? "" : "the program has no such thing.";
  const when = "milestone";
  if (ok) {
    kernel.commands.push({ time: kernel.time, command, changes, detail: "", stage: "asked", when });
    if (command === "pause") kernel.state = "paused";
    if (command === "unpause") kernel.state = "running";
    if (command === "stop") kernel.state = "stopped";
    setTimeout(() => {
      kernel.commands.push({ ...kernel.commands.slice(-1)[0], stage: "in force" });
    }, 1500);
  }
  control.emit({ type: "answer", id, ok, text, when });
}

/** Frames per second over the next seconds, counted the way the screen sees them. */
function frames(seconds: number): Promise<number> {
  return new Promise((resolve) => {
    const began = performance.now();
    let shown = 0;
    const next = (): void => {
      shown += 1;
      const passed = (performance.now() - began) / 1000;
      if (passed < seconds) requestAnimationFrame(next);
      else resolve(shown / passed);
    };
    requestAnimationFrame(next);
  });
}

async function show(): Promise<void> {
  const theme = query.get("theme");
  if (theme) document.body.dataset.jpThemeLight = String(theme === "light");
  const el = document.getElementById("view");
  if (!el) throw new Error("Expected an element #view.");
  prepare();
  const built = "/run_view.js";
  const { default: widget } = (await import(built)) as Built;
  const destroy = widget.render({ model: stream, el });
  if (query.has("live")) {
    setInterval(() => {
      if (kernel.state === "running") kernel.advance(0.2);
      const { content, buffers } = kernel.message("delta");
      stream.emit(content, buffers);
    }, 200);
  }
  Object.assign(window, { tosDemo: { kernel, frames, destroy } });
}

void show();
