/** A kernel as JupyterLab connects to it, with our side of it as far as a page sees it. */

import type { Kernel } from "@jupyterlab/services";
import { Signal, type Slot } from "@lumino/signaling";

import type { RunRow } from "../../src/lab/protocol";
import { CLUSTER } from "./panel-fakes";

const FEATURE = "kernel subshells";

type Content = Record<string, unknown>;

interface Message {
  channel: string;
  header: { msg_type: string; subshell_id?: string | null };
  content: Content;
}

export interface Sent {
  type: string;
  channel: string;
  subshell: string | null;
  content: Content;
}

/** Knows how many listen. */
export class Counted<T, U> extends Signal<T, U> {
  count = 0;

  override connect(slot: Slot<T, U>, thisArg?: unknown): boolean {
    const isNew = super.connect(slot, thisArg);
    if (isNew) this.count += 1;
    return isNew;
  }

  override disconnect(slot: Slot<T, U>, thisArg?: unknown): boolean {
    const was = super.disconnect(slot, thisArg);
    if (was) this.count -= 1;
    return was;
  }
}

interface Page {
  name: string;
  control: string;
  stream: string | null;
  seq: number;
}

export class FakeKernel {
  readonly username = "somebody";
  readonly clientId = "client";
  readonly iopubMessage = new Counted<this, unknown>(this);
  readonly statusChanged = new Counted<this, string>(this);
  readonly connectionStatusChanged = new Counted<this, string>(this);
  readonly targets = new Map<string, () => void>();
  readonly sent: Sent[] = [];
  /** What the kernel would have logged. */
  readonly errors: string[] = [];
  subshells = new Set<string>();
  pages: Page[] = [];
  spec: Promise<{ language: string } | undefined>;
  /** As JupyterLab has it once the kernel has answered on its main shell. */
  info: Promise<unknown> = Promise.resolve({});
  status = "idle";
  isDisposed = false;
  /** Whether it has loaded tos_notebook. */
  loaded = true;
  hasSubshells = true;
  /** Nothing is answered on the control channel. */
  silent = false;
  runs: RunRow[] = [];
  private readonly futures = new Set<() => void>();
  private held: (() => void)[] | null = null;
  private created = 0;
  private life = 0;

  constructor(
    language = "python",
    readonly id = "k",
  ) {
    this.spec = Promise.resolve({ language });
  }

  get real(): Kernel.IKernelConnection {
    return this as unknown as Kernel.IKernelConnection;
  }

  /** What was sent of a kind, or all. */
  of(type: string): Sent[] {
    return this.sent.filter((one) => one.type === type);
  }

  /** The targets of all comms that were opened. */
  get opened(): unknown[] {
    return this.of("comm_open").map(({ content }) => content.target_name);
  }

  /** What was said on the control comm, of a type. */
  said(type: string): Content[] {
    const all = this.of("comm_msg").map(({ content }) => content.data as Content);
    return all.filter((data) => data.type === type);
  }

  // -- as JupyterLab has it -----------------------------------------------------------

  registerCommTarget(name: string, callback: () => void): void {
    this.targets.set(name, callback);
  }

  sendControlMessage(message: Message): { done: Promise<unknown>; dispose: () => void } {
    const { type, content } = this.note(message);
    let dispose = (): void => undefined;
    const done = new Promise<unknown>((resolve, reject) => {
      dispose = () => {
        reject(new Error("Canceled future"));
      };
      if (this.silent) return;
      const { life } = this;
      queueMicrotask(() => {
        if (life === this.life) resolve({ content: this.reply(type, content) });
      });
    });
    done.catch(() => undefined);
    this.futures.add(dispose);
    return { done, dispose };
  }

  sendShellMessage(message: Message): void {
    const sent = this.note(message);
    const { life } = this;
    const handle = (): void => {
      if (life === this.life) this.handle(sent);
    };
    if (this.held) this.held.push(handle);
    else queueMicrotask(handle);
  }

  /** Be another connection to the same kernel. */
  join(other: FakeKernel): void {
    this.runs = other.runs;
    this.subshells = other.subshells;
    this.pages = other.pages;
  }

  // -- its life -----------------------------------------------------------------------

  /** From now on shell messages wait. */
  hold(): void {
    this.held = [];
  }

  release(): void {
    const { held } = this;
    this.held = null;
    for (const handle of held ?? []) handle();
  }

  /** `%load_ext tos_notebook`. */
  load(): void {
    this.loaded = true;
    this.targets.get("tos.kernel")?.();
  }

  /** Whatever was on its way is lost. */
  restart(): void {
    this.life += 1;
    this.loaded = false;
    this.runs = [];
    this.subshells.clear();
    this.pages.length = 0;
    for (const cancel of this.futures) cancel();
  }

  dispose(): void {
    this.isDisposed = true;
    for (const cancel of this.futures) cancel();
  }

  // -- our side -----------------------------------------------------------------------

  /** Tell every page of runs that are new or have changed. */
  tell(...rows: RunRow[]): void {
    const ids = new Set(rows.map(({ id }) => id));
    this.runs = [...this.runs.filter(({ id }) => !ids.has(id)), ...rows];
    for (const page of this.pages) this.overview(page, rows);
  }

  /** As if a message to every page were lost. */
  lose(): void {
    for (const page of this.pages) page.seq += 1;
  }

  /** Say something to every page on its stream. */
  say(content: Content, buffers: unknown[] = []): void {
    for (const { stream } of this.pages) this.publish("comm_msg", stream, content, buffers);
  }

  /** Answer a question; by itself the kernel answers none. */
  answer(id: unknown, answer: Content): void {
    const content = { type: "answer", id, ...answer };
    for (const { control } of this.pages) this.publish("comm_msg", control, content);
  }

  /** Send every page away. */
  close(): void {
    for (const { control, stream } of this.pages.splice(0)) {
      this.publish("comm_close", control);
      this.publish("comm_close", stream);
    }
  }

  private note({ channel, header, content }: Message): Sent {
    const { msg_type: type, subshell_id: subshell = null } = header;
    if (this.isDisposed) this.errors.push(`${type} to a connection that is disposed`);
    if (this.status === "dead") throw new Error("Kernel is dead");
    const sent = { type, channel, subshell, content };
    this.sent.push(sent);
    return sent;
  }

  private reply(type: string, content: Content): Content {
    switch (type) {
      case "comm_info_request": {
        const found = this.loaded && content.target_name === "tos.kernel";
        return { comms: found ? { here: { target_name: "tos.kernel" } } : {} };
      }
      case "kernel_info_request":
        return { supported_features: ["debugger", ...(this.hasSubshells ? [FEATURE] : [])] };
      case "create_subshell_request": {
        this.created += 1;
        const subshell_id = `subshell ${this.created}`;
        this.subshells.add(subshell_id);
        return { subshell_id };
      }
      default:
        if (!this.subshells.delete(content.subshell_id as string)) this.errors.push(type);
        return {};
    }
  }

  private handle({ type, subshell, content }: Sent): void {
    const { comm_id, target_name, data } = content as Record<string, string> & { data: Content };
    if (subshell !== null && !this.subshells.has(subshell)) this.errors.push("No such subshell");
    if (type === "comm_open") {
      this.onOpen(comm_id, target_name, data.page as string);
      return;
    }
    const page = this.pages.find(({ control }) => control === comm_id);
    if (!page) this.errors.push(`No such comm: ${type}`);
    else if (type === "comm_close") this.leave(page);
    else this.onMessage(page, data);
  }

  private onOpen(id: string, target: string, name: string): void {
    const known = this.pages.find((page) => page.name === name);
    if (this.loaded && target === "tos.control") {
      if (known) this.leave(known);
      this.pages.push({ name, control: id, stream: null, seq: 0 });
    } else if (this.loaded && target === "tos.stream" && known) {
      known.stream = id;
      this.overview(known, null);
    } else {
      this.errors.push(`Refused: ${target}`);
      this.publish("comm_close", id);
    }
  }

  private onMessage(page: Page, data: Content): void {
    if (data.type === "hello") this.overview(page, null);
  }

  private leave(page: Page): void {
    this.pages.splice(this.pages.indexOf(page), 1);
    this.publish("comm_close", page.stream);
  }

  /** The whole, if no rows are named. */
  private overview(page: Page, rows: RunRow[] | null): void {
    page.seq += 1;
    const content = { type: "overview", seq: page.seq, whole: rows === null, cluster: CLUSTER };
    this.publish("comm_msg", page.stream, { ...content, runs: rows ?? this.runs });
  }

  private publish(type: string, id: string | null, data: Content = {}, buffers?: unknown[]): void {
    if (id === null || this.isDisposed) return;
    const header = { msg_type: type };
    this.iopubMessage.emit({ header, content: { comm_id: id, data }, buffers });
  }
}
