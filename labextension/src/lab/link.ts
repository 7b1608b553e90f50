/** The comms to one document's kernel: opened, kept and reopened. */

import type { ISessionContext } from "@jupyterlab/apputils";
import type { Kernel as Services, Session } from "@jupyterlab/services";
import { UUID } from "@lumino/coreutils";
import { type ISignal, Signal } from "@lumino/signaling";

import type { StreamMessage } from "../view/model";
import type { Answer } from "../view/requests";
import { CommChannel } from "./comm-channel";
import { asAnswer, Comms, type Content, GONE } from "./comms";
import { ENDS, Guest } from "./guest";
import type { Kernel, LinkState } from "./kernels";
import { Overview } from "./overview";
import type { PageMemory } from "./page-memory";
import type { Bundle, OverviewMessage, Shown } from "./protocol";
import { hasComms, hasSubshells, isPython } from "./subshell";
import { Waiting } from "./waiting";

/** The comm that a kernel opens to say that it has the targets that we open. */
const KERNEL = "tos.kernel";

type KernelChange = Session.ISessionConnection.IKernelChangedArgs;

export class KernelLink implements Kernel {
  readonly overview = new Overview();
  private readonly page = UUID.uuid4();
  private readonly changes = new Signal<this, void>(this);
  private readonly channels = new Map<string, CommChannel>();
  private readonly waiting = new Waiting();
  private now: LinkState = "closed";
  private session: ISessionContext | null = null;
  private place: { path: string; name: string };
  private comms: Comms | null = null;
  private kernel: Services.IKernelConnection | null = null;
  private meeting: { kernel: Services.IKernelConnection; done: Promise<void> } | null = null;
  private guest: Guest | null = null;
  private seconds = 1;
  readonly hide = (run: string): void => {
    this.send({ type: "hide", run });
  };

  constructor(
    path: string,
    private readonly memory: PageMemory,
  ) {
    this.place = { path, name: path.split("/").at(-1) ?? path };
  }

  get context(): ISessionContext | null {
    return this.session;
  }

  get path(): string {
    return this.session?.path ?? this.place.path;
  }

  get name(): string {
    return this.session?.name ?? this.place.name;
  }

  get state(): LinkState {
    return this.now;
  }

  get changed(): ISignal<this, void> {
    return this.changes;
  }

  /** Whether anything is known of the kernel now. */
  get present(): boolean {
    return this.session !== null || this.guest !== null;
  }

  /** The document was opened, perhaps not for the first time. */
  attach(context: ISessionContext): void {
    this.session = context;
    context.kernelChanged.connect(this.onKernel);
    context.statusChanged.connect(this.onStatus);
    context.connectionStatusChanged.connect(this.onConnection);
    this.become(this.comms === null ? this.unmet : this.now);
    void context.ready.then(() => (this.guest === null ? this.meet() : this.handOver()));
  }

  detach(): void {
    const { session } = this;
    if (session === null) return;
    this.place = { path: session.path, name: session.name };
    session.kernelChanged.disconnect(this.onKernel);
    session.statusChanged.disconnect(this.onStatus);
    session.connectionStatusChanged.disconnect(this.onConnection);
    this.session = null;
    if (this.guest === null) {
      this.kernel = null;
      this.drop();
    }
    // A visit continues.
    this.become(this.comms === null ? "closed" : this.now);
  }

  /** The document is not open, but its kernel runs: follow it over a connection of our own. */
  async visit(kernel: Services.IKernelConnection): Promise<boolean> {
    const guest = new Guest(kernel, this.endVisit, this.reconnected);
    this.guest = guest;
    await this.meet();
    // The document may have another guest by now.
    if (this.guest !== guest) return true;
    if (this.comms === null) this.endVisit();
    return this.comms !== null;
  }

  /** Let the document's own connection take over, once JupyterLab holds nothing back on it. */
  private async handOver(): Promise<void> {
    const { guest, session } = this;
    const kernel = session?.session?.kernel ?? null;
    if (guest === null || kernel === null) return;
    if (kernel.id !== guest.kernel.id) {
      this.endVisit();
      return;
    }
    await Promise.allSettled([this.expect(), kernel.info]);
    // The visit may have ended meanwhile, having found nothing, and the document been closed.
    if (this.guest !== guest || this.session !== session || this.comms === null) return;
    this.take(kernel);
    this.comms.move(kernel);
    this.guest = null;
    guest.retire();
  }

  private readonly endVisit = (): void => {
    const { guest } = this;
    if (guest === null) return;
    this.guest = this.kernel = null;
    this.drop();
    guest.dispose();
    if (this.now !== this.unmet) this.become(this.unmet);
    // What the visit has not found may come to the document's own connection.
    void this.meet();
  };

  /** The state while no kernel is known to have what we look for. */
  private get unmet(): LinkState {
    if (this.session === null) return "closed";
    return this.overview.runs.length + this.overview.clusters.length > 0 ? "lost" : "absent";
  }

  /** Resolves once the comms are open and the runs known; rejects if the kernel has none of ours. */
  expect(): Promise<void> {
    if (this.now === "open") return Promise.resolve();
    // While the document is closed, or has no kernel, the caller waits until it has one.
    void this.session?.ready.then(() => this.meet());
    return this.waiting.wait();
  }

  /** Seconds between two overviews at least. */
  pace(seconds: number): void {
    if (seconds === this.seconds) return;
    this.seconds = seconds;
    this.send({ type: "pace", seconds });
  }

  async command(run: string, command: string, arguments_: Content = {}): Promise<Answer> {
    return asAnswer(await this.ask({ type: "command", run, command, arguments: arguments_ }));
  }

  async stopCluster(cluster: string): Promise<Answer> {
    return asAnswer(await this.ask({ type: "command", cluster, command: "stop" }));
  }

  async picture(shown: Shown): Promise<Bundle | null> {
    const answer = await this.ask({ type: "picture", ...shown });
    return answer.ok === true ? (answer.bundle as Bundle) : null;
  }

  channel(run: string): CommChannel {
    return new CommChannel(this, run, this.channels, this.memory);
  }

  send(content: Content): void {
    this.comms?.send(content);
  }

  private async ask(content: Content): Promise<Content> {
    return (await this.comms?.ask(content)) ?? GONE;
  }

  // -- the kernel's life --------------------------------------------------------------

  private readonly onKernel = (_: ISessionContext, { oldValue }: KernelChange): void => {
    // The first one is what callers of `expect` have waited for.
    if (oldValue) this.leave();
    void this.meet();
  };

  private readonly onStatus = (_: ISessionContext, status: Services.Status): void => {
    if (ENDS.has(status)) this.leave();
  };

  private readonly onConnection = (_: unknown, status: Services.ConnectionStatus): void => {
    if (status === "connected" && this.guest === null) this.reconnected();
  };

  private readonly reconnected = (): void => {
    // What was said meanwhile may be lost, and the kernel may have given us up.
    const again = this.comms !== null;
    this.drop();
    void (again ? this.open() : this.meet());
  };

  /** The kernel is another one, or about to be. */
  private leave(): void {
    this.endVisit();
    this.drop();
    this.waiting.reject("The kernel was restarted.");
    if (this.session !== null) this.become(this.unmet);
  }

  /** Find out whether the kernel has what we look for; several may ask while it is being found. */
  private meet(): Promise<void> {
    const kernel = this.guest?.kernel ?? this.session?.session?.kernel ?? null;
    if (kernel === null) return Promise.resolve();
    if (this.meeting?.kernel !== kernel) {
      const meeting = { kernel, done: this.look(kernel) };
      this.meeting = meeting;
      void meeting.done.then(() => {
        if (this.meeting === meeting) this.meeting = null;
      });
    }
    return this.meeting.done;
  }

  private async look(kernel: Services.IKernelConnection): Promise<void> {
    this.take(kernel);
    const ours = await isPython(kernel);
    // Asked at once: a reloaded page waits for every answer.
    const able = ours ? hasSubshells(kernel) : undefined;
    const found = ours && (await hasComms(kernel, KERNEL));
    if (kernel !== this.kernel || this.comms !== null) return;
    if (found) await this.open(able);
    else this.waiting.reject("This kernel has no such run.");
  }

  private take(kernel: Services.IKernelConnection): void {
    if (kernel === this.kernel) return;
    this.kernel = kernel;
    kernel.registerCommTarget(KERNEL, () => void this.open());
  }

  private async open(able?: Promise<boolean>): Promise<void> {
    const { kernel } = this;
    if (kernel === null || this.comms !== null) return;
    const comms = new Comms(kernel, this.page, { heard: this.heard, closed: this.closed });
    this.comms = comms;
    this.become("opening");
    if (await comms.open(able ?? hasSubshells(kernel))) this.begin();
  }

  /** Say what we want to hear, before the first word has come. */
  private begin(): void {
    if (this.seconds !== 1) this.send({ type: "pace", seconds: this.seconds });
    // Views from before the comms were reopened continue.
    for (const channel of this.channels.values()) channel.hello();
  }

  private readonly closed = (): void => {
    // A kernel that does not know us refuses; one that gave us up may be asked again.
    const again = this.now === "open";
    this.drop();
    if (again) void this.open();
    else this.leave();
  };

  /** Close the comms, such as when the page goes: what the kernel tells would go nowhere. */
  drop(): void {
    const { comms } = this;
    this.comms = this.meeting = null;
    comms?.dispose();
  }

  private become(state: LinkState): void {
    this.now = state;
    if (state === "open") this.waiting.resolve();
    this.changes.emit();
  }

  // -- what it says -------------------------------------------------------------------

  private readonly heard = (content: Content, buffers: readonly DataView[]): void => {
    if (content.type !== "overview") {
      const channel = this.channels.get(String(content.view));
      if (channel?.receive(content as unknown as StreamMessage, buffers)) this.changes.emit();
    } else if (!this.overview.apply(content as unknown as OverviewMessage)) {
      this.send({ type: "hello" });
    } else if (this.now === "opening") {
      this.become("open");
    } else {
      this.changes.emit();
    }
  };
}
