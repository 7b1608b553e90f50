/** What jsdom lacks, and a widget's model that a test can hold in its hand. */

import { vi } from "vitest";

import { actions, pack } from "../demo/kernel";
import type { Channel, Listener } from "../src/view/channel";
import type { WidgetModel } from "../src/widget-model";
import type { CommandEntry, Parts, Worker } from "../src/view/model";

type Callback = (...arguments_: never[]) => void;

export class FakeModel implements WidgetModel {
  readonly sent: Record<string, unknown>[] = [];
  readonly callbacks = new Set<Callback>();

  constructor(
    private readonly values: Record<string, unknown> = {},
    readonly widget_manager?: WidgetModel["widget_manager"],
  ) {}

  get(name: string): unknown {
    return this.values[name];
  }
  on(_: string, callback: Callback): void {
    this.callbacks.add(callback);
  }
  off(_: string, callback: Callback): void {
    this.callbacks.delete(callback);
  }
  send(content: unknown): void {
    this.sent.push(content as Record<string, unknown>);
  }
  emit(content: unknown, buffers: DataView[] = []): void {
    for (const callback of this.callbacks)
      (callback as (...a: unknown[]) => void)(content, buffers);
  }
}

/** The stream and control models of one view, as the kernel makes them. */
export function pair(): { stream: FakeModel; control: FakeModel } {
  const control = new FakeModel();
  const get_model = vi.fn(() => Promise.resolve(control));
  return { stream: new FakeModel({ control: "IPY_MODEL_abc" }, { get_model }), control };
}

/** A kernel that listens and says nothing. */
export class FakeChannel implements Channel {
  hellos = 0;

  open(): Promise<void> {
    return Promise.resolve();
  }
  hello(): void {
    this.hellos += 1;
  }
  command(): void {
    /* No test asks what was sent. */
  }
  close(): void {
    /* Nothing is held. */
  }
}

/** A view that shows nothing. */
export function listener() {
  return {
    message: vi.fn<Listener["message"]>(),
    answer: vi.fn<Listener["answer"]>(),
    snapshot: vi.fn<Listener["snapshot"]>(() => null),
  };
}

export function worker(index: number, changes: Partial<Worker> = {}): Worker {
  return {
    ...{ key: `${index}/${index}`, executor: String(index), host: "h", partition: index, epoch: 1 },
    ...{ milestones: 1, samples: 100, samples_per_second: 50, staleness: 1, staleness_mean: 1 },
    ...{ staleness_max: 2, age: 0.1, sent: 4, received: 6, state: "training", lost: 0, note: "" },
    ...changes,
  };
}

/** A command, in force unless said otherwise. */
export function entered(changes: Partial<CommandEntry> = {}): CommandEntry {
  return {
    ...{ time: 1, command: "set", changes: {}, detail: "", stage: "in force", when: "milestone" },
    ...changes,
  };
}

/** A whole state with one training point of loss for each given value. */
export function parts(losses: number[] = [], run: Partial<Parts["run"]> = {}): Parts {
  return {
    run: {
      ...{ id: "r", number: 3, state: "running", epoch: 1, epochs: 4, elapsed: 2 },
      ...{ combiner: "dynsgd", sync_interval: 10, batch_size: 100, learning_rate: 0.1 },
      chaos: [],
      ...{ has_learning_rate: true, partitions: 2, master: "local[2]", program: "Keras model" },
      model_bytes: 400,
      ...{
        actions,
        sync: "asp",
        codec: "fp32",
        error: null,
      },
      ...run,
    },
    totals: {
      ...{ milestones: losses.length, samples: 100, samples_total: 400, samples_per_second: 50 },
      ...{ loss: losses.at(-1) ?? null, staleness_mean: 1, bytes: 1000, eta: 6 },
      ...{ recent_staleness: 1, recent_workers: 2 },
    },
    series: [{ name: "loss", split: "training", length: losses.length }],
    workers: [worker(0), worker(1)],
    lanes: { length: 0 },
    ...{ marks: [], commands: [], log: [] },
  };
}

/** The buffers that go with `parts(losses)`. */
export function buffers(losses: number[], lanes: number[][] = []): DataView[] {
  return [
    pack(
      losses.map((loss, i) => [i, 100 * i, i / 4, loss]),
      4,
    ),
    pack(lanes, 6),
  ];
}

class Observer {
  static readonly living = new Set<Observer>();
  constructor(readonly callback: (entries: { isIntersecting: boolean }[]) => void) {
    Observer.living.add(this);
  }
  observe(): void {
    /* Tests call the callback themselves. */
  }
  disconnect(): void {
    Observer.living.delete(this);
  }
}

export class FakeIntersectionObserver extends Observer {}

/** Put what jsdom lacks in place; frames are drawn when the test says so. */
export function browser(): { frame: () => void; mediaListeners: Set<unknown> } {
  const frames = new Map<number, () => void>();
  const mediaListeners = new Set<unknown>();
  let last = 0;
  vi.stubGlobal("IntersectionObserver", FakeIntersectionObserver);
  vi.stubGlobal("ResizeObserver", Observer);
  vi.stubGlobal("requestAnimationFrame", (callback: () => void) => {
    frames.set(++last, callback);
    return last;
  });
  vi.stubGlobal("cancelAnimationFrame", (id: number) => frames.delete(id));
  vi.stubGlobal("matchMedia", () => ({
    matches: false,
    addEventListener: (_: string, listener: unknown) => mediaListeners.add(listener),
    removeEventListener: (_: string, listener: unknown) => mediaListeners.delete(listener),
  }));
  HTMLCanvasElement.prototype.getContext = () => null;
  const frame = (): void => {
    const due = [...frames.values()];
    frames.clear();
    for (const callback of due) callback();
  };
  return { frame, mediaListeners };
}

export { Observer };
