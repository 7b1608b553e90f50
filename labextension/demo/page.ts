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

/** What a run is like in each state, after it has trained for a while. */
const STATES: Record<string, () => void> = {
  running: () => undefined,
  starting: () => {
    kernel.state = "starting";
    kernel.told = { elapsed: 3 };
  },
  queued: () => {
    kernel.state = "starting";
    const wait =
      'Waiting: run "first" holds both slots of local[2]. This run is queued, and starts when they are free.';
    kernel.told = { waits: [wait], name: "second" };
  },
  paused: () => {
    kernel.state = "paused";
  },
  chaos: () => {
    kernel.state = "paused";
    kernel.told = { chaos: ["partition 1: 5 times slower"], epoch: 35, epochs: 3000 };
    kernel.left = 1020;
  },
  waiting: () => {
    kernel.told = {
      waits: ["Partition 3 waits for a free slot of Spark: 4 of 4 are taken."],
      chaos: ["partition 1: 5 times slower"],
    };
  },
  diverging: () => {
    kernel.factor = 4e6;
    kernel.warning = { kind: "diverging", epoch: null, factor: 3.1e4 };
    kernel.told = { rate_before: 0.01 };
    kernel.rate = 1000;
    const changes = { learning_rate: "1000" };
    const rest = { detail: "learning_rate=1000", stage: "in force", when: "milestone" } as const;
    kernel.commands.push({ time: kernel.time, command: "set", changes, ...rest });
    kernel.advance(2);
  },
  overfitting: () => {
    kernel.overfits = kernel.time;
    kernel.warning = { kind: "overfitting", epoch: 4, factor: null };
    kernel.advance(30);
  },
  finished: () => {
    kernel.state = "finished";
    kernel.told = { epoch: 10 };
  },
  stopped: () => {
    kernel.state = "stopped";
    kernel.told = { reason: "validation accuracy 0.981 > 0.98" };
  },
  failed: fail,
  early: () => {
    fail();
    kernel.told = { epoch: 1, elapsed: 2.3, epochs: 2 };
  },
  lost: () => {
    kernel.state = "lost";
  },
};

/** What somebody did: steps of training, a pause and two changes. */
function steer(): void {
  const seconds = number("seconds", 25);
  const told = (command: string, changes: Record<string, string>): void => {
    const { time } = kernel;
    const detail = Object.entries(changes)
      .map((each) => each.join("="))
      .join(", ");
    const settled = { stage: "in force", since: time + 0.2, when: "milestone" } as const;
    kernel.commands.push({ time, command, changes, detail, ...settled });
  };
  kernel.advance(0.3 * seconds);
  told("swap combiner", { combiner: "easgd" });
  kernel.advance(0.2 * seconds);
  told("pause", {});
  kernel.time += 0.1 * seconds;
  told("unpause", {});
  kernel.advance(0.2 * seconds);
  told("set", { learning_rate: "0.01" });
  kernel.advance(0.2 * seconds);
}

function prepare(): void {
  const state = query.get("state") ?? "running";
  if (query.has("plain")) kernel.advance(number("seconds", 25));
  else if (!["starting", "queued", "early"].includes(state)) steer();
  if (query.has("plain")) return;
  STATES[state]();
  if (kernel.time === 0) return;
  if (query.has("trouble")) {
    kernel.worker(1).note = "behind: 41 % of the median pace";
    kernel.marks.push({ time: kernel.time - 3, worker: 1, kind: "retry", text: "attempt 2" });
    kernel.marks.push({ time: kernel.time - 1, worker: 2, kind: "lost", text: "gone" });
  }
  kernel.log.push({ time: 3.2, level: "info", text: "Worker joined on partition 1." });
  kernel.log.push({ time: 17, level: "warning", text: "Executor 1 lost partition 1: retried." });
}

function fail(): void {
  kernel.state = "failed";
  kernel.worker(1).state = "failed";
  kernel.error = {
    message:
      "InvalidArgumentError: assertion failed: [Condition x < y did not hold element-wise:] " +
      "[x (batch_0:0) = ] [[1.02791333 -0.54810226 1.62104702...]...] [y (assert_less/y:0) = ] [0.5]",
    where: "executor 1 (node), partition 1, attempt 0, epoch 3, batch 14",
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
    const asked = kernel.commands[kernel.commands.length - 1];
    setTimeout(() => {
      if (typeof values.combiner === "string") kernel.combiner = values.combiner;
      if (typeof values.learning_rate === "number") kernel.rate = values.learning_rate;
      kernel.commands.push({ ...asked, stage: "in force", since: kernel.time });
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
