/** The two comms between a page and a kernel: one to ask and be answered, one to listen to. */

import type { Kernel, KernelMessage } from "@jupyterlab/services";
import { UUID } from "@lumino/coreutils";

import type { Answer, When } from "../view/requests";
import { createSubshell, deleteSubshell, sendToComm } from "./subshell";

const CONTROL = "tos.control";
const STREAM = "tos.stream";

/** Milliseconds between two signs of life while the kernel tells us things. */
const HERE = 30_000;
/** Milliseconds for an answer: a kernel without subshells gives none while a cell runs. */
const PATIENCE = 120_000;

const LATE =
  "The kernel has not answered for two minutes. If a cell keeps it busy, it acts when that ends.";

export type Content = Record<string, unknown>;

/** The answer of a kernel without comms. */
export const GONE: Content = { ok: false, text: "The kernel is gone." };

export function asAnswer({ ok, text, when }: Content): Answer {
  const said = typeof text === "string" ? text : "";
  return { ok: ok === true, text: said, when: when as When | undefined };
}

export interface Ears {
  /** The kernel said something by itself. */
  heard: (content: Content, buffers: readonly DataView[]) => void;
  /** The kernel has closed the comms, or does not know them. */
  closed: () => void;
}

type Message = KernelMessage.IIOPubMessage;

export class Comms {
  private readonly control = UUID.uuid4();
  private readonly stream = UUID.uuid4();
  private readonly questions = new Map<number, (content: Content) => void>();
  /** Those of the two that the kernel has. */
  private readonly known = new Set<string>();
  private subshell: string | null = null;
  private closed = false;
  private lastId = 0;
  private said = 0;

  constructor(
    private kernel: Kernel.IKernelConnection,
    private readonly page: string,
    private readonly ears: Ears,
  ) {}

  /** Returns whether they have been opened; they may have been given up meanwhile. */
  async open(able: Promise<boolean>): Promise<boolean> {
    const { kernel } = this;
    const subshell = (await able) ? await createSubshell(kernel) : null;
    if (this.closed) {
      deleteSubshell(kernel, subshell);
      return false;
    }
    this.subshell = subshell;
    kernel.iopubMessage.connect(this.onMessage);
    // They go the same way, so that the kernel has the page when it gets the page's stream.
    this.begin(this.control, CONTROL);
    this.begin(this.stream, STREAM);
    return true;
  }

  /**
   * Continue over another connection to the same kernel.
   *
   * The one before is listened to until it is disposed, as it may be behind: what comes twice is
   * taken once.
   */
  move(kernel: Kernel.IKernelConnection): void {
    this.kernel = kernel;
    kernel.iopubMessage.connect(this.onMessage);
  }

  send(content: Content): void {
    this.post("comm_msg", this.control, { data: content });
  }

  /** Ask, and wait for the answer. */
  ask(content: Content): Promise<Content> {
    if (!this.known.has(this.control)) return Promise.resolve(GONE);
    this.lastId += 1;
    const id = this.lastId;
    this.send({ ...content, id });
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.answered({ id, ok: false, text: LATE });
      }, PATIENCE);
      this.questions.set(id, (answer) => {
        clearTimeout(timer);
        resolve(answer);
      });
    });
  }

  /** Callers that still wait for an answer are told so. */
  dispose(): void {
    if (this.closed) return;
    this.closed = true;
    // The kernel lets go of the stream with it.
    this.post("comm_close", this.control, { data: {} });
    this.known.clear();
    this.kernel.iopubMessage.disconnect(this.onMessage);
    deleteSubshell(this.kernel, this.subshell);
    for (const resolve of this.questions.values()) {
      resolve({ ok: false, text: "The kernel went away before it answered." });
    }
    this.questions.clear();
  }

  /** The page is the same in both, so that the kernel knows that they belong together. */
  private begin(id: string, target_name: string): void {
    this.known.add(id);
    this.post("comm_open", id, { target_name, data: { page: this.page } });
  }

  private post(
    kind: "comm_open" | "comm_msg" | "comm_close",
    comm_id: string,
    content: Content,
  ): void {
    const { kernel } = this;
    if (!this.known.has(comm_id) || kernel.isDisposed || kernel.status === "dead") return;
    this.said = Date.now();
    sendToComm(kernel, kind, this.subshell, { comm_id, ...content });
  }

  private readonly onMessage = (_: unknown, message: Message): void => {
    const kind = message.header.msg_type;
    if (kind !== "comm_msg" && kind !== "comm_close") return;
    const { content, buffers } = message as KernelMessage.ICommMsgMsg<"iopub">;
    if (!this.known.has(content.comm_id)) return;
    if (kind === "comm_close") {
      this.onClose(content.comm_id);
    } else if (content.comm_id === this.control) {
      if (content.data.type === "answer") this.answered(content.data);
    } else {
      if (Date.now() - this.said > HERE) this.send({ type: "here" });
      this.ears.heard(content.data, (buffers ?? []).map(asView));
    }
  };

  private onClose(id: string): void {
    this.known.delete(id);
    this.ears.closed();
  }

  private answered(content: Content): void {
    const id = content.id as number;
    this.questions.get(id)?.(content);
    this.questions.delete(id);
  }
}

function asView(one: ArrayBuffer | ArrayBufferView): DataView {
  if (one instanceof ArrayBuffer) return new DataView(one);
  return new DataView(one.buffer, one.byteOffset, one.byteLength);
}
