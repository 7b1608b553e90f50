/** The kernels of all open notebooks and consoles, and those that train while theirs is closed. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { ISessionContext } from "@jupyterlab/apputils";
import type { IConsoleTracker } from "@jupyterlab/console";
import type { INotebookTracker } from "@jupyterlab/notebook";
import { type ISignal, Signal } from "@lumino/signaling";

import type { Snapshot } from "../view/model";
import type { Kernel, Kernels } from "./kernels";
import { KernelLink } from "./link";
import { PageMemory } from "./page-memory";

/** Seconds between two overviews of a kernel that a user looks at, and of others. */
const SEEN = 1;
const UNSEEN = 5;

/** What has a kernel: a notebook or a console. */
export interface Document {
  sessionContext: ISessionContext;
}

export class Hub implements Kernels {
  /** Also those of closed documents: a tab may wait for one to be opened again. */
  private readonly links: KernelLink[] = [];
  private readonly changes = new Signal<this, void>(this);
  private readonly closings = new Signal<this, void>(this);
  private readonly memory = new PageMemory();
  private listed = false;

  constructor(
    private readonly shell: JupyterFrontEnd.IShell,
    private readonly notebooks: INotebookTracker | null,
    private readonly consoles: IConsoleTracker | null,
  ) {
    for (const tracker of [notebooks, consoles]) {
      tracker?.forEach((document) => {
        this.add(document);
      });
      tracker?.widgetAdded.connect((_, document) => {
        this.add(document);
      });
      tracker?.currentChanged.connect(this.look);
    }
    shell.currentChanged?.connect(this.look);
    document.addEventListener("visibilitychange", this.look);
    window.addEventListener("pagehide", () => {
      for (const link of this.links) link.drop();
    });
  }

  *[Symbol.iterator](): Iterator<Kernel> {
    for (const link of this.links) if (link.present) yield link;
  }

  get changed(): ISignal<this, void> {
    return this.changes;
  }

  /** A document was closed; its kernel may keep running. */
  get closed(): ISignal<this, void> {
    return this.closings;
  }

  get current(): Kernel | null {
    const front = this.shell.currentWidget;
    const console = this.consoles?.currentWidget ?? null;
    const notebook = this.notebooks?.currentWidget ?? null;
    const document = console !== null && front === console ? console : (notebook ?? console);
    return document === null ? null : this.of(document.sessionContext);
  }

  /** Whether a list of all kernels is in sight. */
  set inSight(listed: boolean) {
    this.listed = listed;
    this.look();
  }

  find(path: string): Kernel | null {
    return this.links.find((link) => link.path === path) ?? null;
  }

  /** That of a document which may be opened only later. */
  at(path: string): KernelLink {
    return this.links.find((link) => link.path === path) ?? this.make(path);
  }

  of(context: ISessionContext): KernelLink | null {
    return this.links.find((link) => link.context === context) ?? null;
  }

  /** What the page shows of a run, also after the kernel is gone. */
  shown(run: string): Snapshot | null {
    return this.memory.shown(run);
  }

  /** Follow a document's kernel; two views of one document have the same. */
  add({ sessionContext }: Document): void {
    if (this.of(sessionContext) !== null) return;
    this.link(sessionContext);
    // Once the document itself is disposed, nothing can be said to the kernel any more.
    sessionContext.disposed.connect(() => {
      this.of(sessionContext)?.detach();
      this.closings.emit();
    });
    this.look();
  }

  private link(context: ISessionContext): void {
    const { path } = context;
    const waiting = this.links.find((link) => link.context === null && link.path === path);
    (waiting ?? this.make(path)).attach(context);
  }

  private make(path: string): KernelLink {
    const link = new KernelLink(path, this.memory);
    this.links.push(link);
    link.changed.connect(this.onChange);
    return link;
  }

  private readonly onChange = (): void => {
    this.changes.emit();
  };

  /** The user looks at another document, or at none. */
  private readonly look = (): void => {
    const { current } = this;
    for (const link of this.links) {
      const seen = !document.hidden && (this.listed || link === current);
      link.pace(seen ? SEEN : UNSEEN);
    }
    this.changes.emit();
  };
}
