import { Signal } from "@lumino/signaling";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Hub } from "../../src/lab/hub";
import { listener } from "../fakes";
import { FakeKernel } from "./kernel-fakes";
import { row } from "./panel-fakes";
import { FakeContext, settle } from "./session-fakes";

class FakeDocument {
  readonly kernel = new FakeKernel();
  readonly sessionContext: FakeContext;

  constructor(path: string) {
    this.kernel.runs = [row(3)];
    this.sessionContext = new FakeContext(path, this.kernel);
  }
}

class FakeTracker {
  readonly widgetAdded = new Signal<this, FakeDocument>(this);
  readonly currentChanged = new Signal<this, FakeDocument | null>(this);
  readonly all: FakeDocument[] = [];
  currentWidget: FakeDocument | null = null;

  forEach(visit: (document: FakeDocument) => void): void {
    this.all.forEach(visit);
  }

  open(path: string): FakeDocument {
    const document = new FakeDocument(path);
    this.all.push(document);
    this.widgetAdded.emit(document);
    return document;
  }

  show(document: FakeDocument | null): void {
    this.currentWidget = document;
    this.currentChanged.emit(document);
  }
}

let hidden = false;
let shell: { currentWidget: unknown };
let notebooks: FakeTracker;
let consoles: FakeTracker;
let hub: Hub;

function make(): Hub {
  const trackers = [notebooks, consoles] as never[];
  hub = new Hub(shell as never, trackers[0], trackers[1]);
  return hub;
}

function paths(): string[] {
  return [...hub].map(({ path }) => path);
}

/** The pace that each kernel was told last; one second is every kernel's own. */
function paces(): unknown[] {
  return notebooks.all.map(({ kernel }) => kernel.said("pace").at(-1)?.seconds ?? 1);
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  hidden = false;
  vi.spyOn(document, "hidden", "get").mockImplementation(() => hidden);
  shell = { currentWidget: null };
  notebooks = new FakeTracker();
  consoles = new FakeTracker();
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("the kernels", () => {
  it("are those of documents that are open already, and of others as they come", async () => {
    notebooks.open("a.ipynb");
    make();
    const changed = vi.fn();
    hub.changed.connect(changed);
    consoles.open("console-1");
    notebooks.open("b.ipynb");
    expect(paths()).toEqual(["a.ipynb", "console-1", "b.ipynb"]);
    expect(changed).toHaveBeenCalled();
    await settle();
    for (const { state } of hub) expect(state).toBe("open");
    expect(hub.find("b.ipynb")).toBe([...hub][2]);
    expect(hub.find("c.ipynb")).toBeNull();
  });

  it("are met once, however many views a document has", async () => {
    make();
    const document = notebooks.open("a.ipynb");
    hub.add(document as never);
    hub.add({ sessionContext: document.sessionContext.real });
    await settle();
    expect(paths()).toEqual(["a.ipynb"]);
    expect(document.kernel.opened).toEqual(["tos.control", "tos.stream"]);
    expect(document.sessionContext.listeners).toBe(3);
  });

  it("tell through us that they have changed", async () => {
    make();
    const { kernel } = notebooks.open("a.ipynb");
    await settle();
    const changed = vi.fn();
    hub.changed.connect(changed);
    kernel.tell(row(4));
    expect(changed).toHaveBeenCalledOnce();
  });

  it("may be none at all", () => {
    const empty = new Hub(shell as never, null, null);
    expect([...empty]).toEqual([]);
    expect(empty.current).toBeNull();
  });
});

describe("a document that is closed", () => {
  it("takes leave of its kernel, and is not listed", async () => {
    make();
    const { sessionContext, kernel } = notebooks.open("a.ipynb");
    await settle();
    const link = hub.find("a.ipynb");
    sessionContext.dispose();
    await settle();
    expect(paths()).toEqual([]);
    expect(link?.state).toBe("closed");
    expect(hub.of(sessionContext.real)).toBeNull();
    expect(sessionContext.listeners).toBe(0);
    // Neither a page nor a thread is left in the kernel, which goes on.
    expect([kernel.pages.length, kernel.subshells.size]).toEqual([0, 0]);
    expect(kernel.errors).toEqual([]);
  });

  it("has the same link when it is opened again, and who waits is served", async () => {
    make();
    notebooks.open("a.ipynb").sessionContext.dispose();
    const link = hub.find("a.ipynb");
    const opened = vi.fn();
    void link?.channel("r3").open(listener()).then(opened);
    await settle(60);
    expect(opened).not.toHaveBeenCalled();
    const again = notebooks.open("a.ipynb");
    await settle();
    expect(hub.of(again.sessionContext.real)).toBe(link);
    expect(opened).toHaveBeenCalledOnce();
    expect(paths()).toEqual(["a.ipynb"]);
  });

  it("does not take who waits for its kernel along", async () => {
    make();
    const first = notebooks.open("a.ipynb");
    first.kernel.hold();
    const refused = vi.fn();
    const opened = vi.fn();
    const channel = hub.find("a.ipynb")?.channel("r3");
    channel?.open(listener()).then(opened, refused);
    await settle();
    first.sessionContext.dispose();
    notebooks.open("a.ipynb");
    await settle();
    expect(refused).not.toHaveBeenCalled();
    expect(opened).toHaveBeenCalledOnce();
  });

  it("may be waited for before it was ever open", async () => {
    make();
    const link = hub.at("work/a.ipynb");
    expect([link.state, link.name, paths()]).toEqual(["closed", "a.ipynb", []]);
    expect(hub.at("work/a.ipynb")).toBe(link);
    notebooks.open("work/a.ipynb");
    await settle();
    expect([...hub]).toEqual([link]);
    expect(link.state).toBe("open");
  });
});

describe("the current kernel", () => {
  it("is that of the notebook, or of a console that is in front", () => {
    make();
    expect(hub.current).toBeNull();
    const console = consoles.open("console-1");
    consoles.show(console);
    expect(hub.current?.path).toBe("console-1");
    notebooks.show(notebooks.open("a.ipynb"));
    expect(hub.current?.path).toBe("a.ipynb");
    shell.currentWidget = console;
    expect(hub.current?.path).toBe("console-1");
    shell.currentWidget = {};
    expect(hub.current?.path).toBe("a.ipynb");
  });
});

describe("a kernel's pace", () => {
  beforeEach(async () => {
    make();
    notebooks.open("a.ipynb");
    notebooks.show(notebooks.open("b.ipynb"));
    await settle();
  });

  it("is that of somebody who looks for the notebook in front alone", () => {
    expect(paces()).toEqual([5, 1]);
    notebooks.show(notebooks.all[0]);
    expect(paces()).toEqual([1, 5]);
  });

  it("is so for all while a list of all is in sight", () => {
    hub.inSight = true;
    expect(paces()).toEqual([1, 1]);
    hub.inSight = false;
    expect(paces()).toEqual([5, 1]);
  });

  it("is slow for all while the page is hidden", () => {
    hub.inSight = true;
    hidden = true;
    document.dispatchEvent(new Event("visibilitychange"));
    expect(paces()).toEqual([5, 5]);
    hidden = false;
    document.dispatchEvent(new Event("visibilitychange"));
    expect(paces()).toEqual([1, 1]);
  });

  it("costs no messages while it stays the same", async () => {
    const count = (): number => notebooks.all.flatMap(({ kernel }) => kernel.sent).length;
    const before = count();
    notebooks.currentChanged.emit(null);
    await settle(3600);
    expect(count()).toBe(before);
  });
});
