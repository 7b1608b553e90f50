/** What a tab of the browser knows of runs, kept while its page is reloaded. */

import type { Parts, Snapshot } from "../view/model";
import { version } from "../../package.json";

/** Another version may know other parts. */
const VIEWS = `tos-notebook:views:${version}`;

type Taker = () => Snapshot | null;

interface SavedView {
  state: Parts;
  /** In base64. */
  buffers: string[];
}

/** What was remembered under a name; null if nothing that can be read was. */
export function recall(name: string): unknown {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? "null");
  } catch {
    return null;
  }
}

export function remember(name: string, value: unknown): void {
  const text = JSON.stringify(value);
  try {
    if (text !== sessionStorage.getItem(name)) sessionStorage.setItem(name, text);
  } catch {
    // The browser has no room for it: the page will have to wait for the kernel.
    sessionStorage.removeItem(name);
  }
}

/** The runs that the page shows, as it shows them. */
export class PageMemory {
  private readonly kept: Map<string, SavedView>;
  private readonly takers = new Map<Taker, string>();

  constructor() {
    this.kept = new Map(Object.entries(recall(VIEWS) ?? {}) as [string, SavedView][]);
    // It is of the page before this one, and of no other.
    sessionStorage.removeItem(VIEWS);
    window.addEventListener("pagehide", this.save);
  }

  /** Keep what `take` returns when the page goes; call the result when the run is shown no more. */
  keep(run: string, take: Taker): () => void {
    this.takers.set(take, run);
    return () => {
      this.takers.delete(take);
    };
  }

  /** What the page shows of a run now; null if it shows nothing. */
  shown(run: string): Snapshot | null {
    for (const [take, taken] of this.takers) {
      const snapshot = taken === run ? take() : null;
      if (snapshot !== null) return snapshot;
    }
    return null;
  }

  /** What the page before this one showed of a run; late for every delta of the kernel. */
  recall(run: string): Snapshot | null {
    const kept = this.kept.get(run);
    if (kept === undefined) return null;
    const buffers = kept.buffers.map(fromBase64);
    return {
      message: { type: "snapshot", seq: Number.MAX_SAFE_INTEGER, state: kept.state },
      buffers,
    };
  }

  /** The kernel has told of a run since. */
  forget(run: string): void {
    this.kept.delete(run);
  }

  private readonly save = (): void => {
    const kept: Record<string, SavedView> = {};
    for (const [take, run] of this.takers) {
      const snapshot = take();
      if (snapshot === null) continue;
      kept[run] = { state: snapshot.message.state, buffers: snapshot.buffers.map(toBase64) };
    }
    if (Object.keys(kept).length > 0) remember(VIEWS, kept);
  };
}

function toBase64(view: DataView): string {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

function fromBase64(text: string): DataView {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new DataView(bytes.buffer);
}
