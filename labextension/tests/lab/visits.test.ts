import { Signal } from "@lumino/signaling";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Hub } from "../../src/lab/hub";
import { Visits } from "../../src/lab/visits";
import { FakeKernel } from "./kernel-fakes";
import { row } from "./panel-fakes";
import { FakeContext, settle } from "./session-fakes";

interface Model {
  path: string;
  kernel: { id: string } | null;
}

/** A server with kernels, and the connections that were made to them. */
class FakeServices {
  readonly models: Model[] = [];
  readonly connections: FakeKernel[] = [];
  readonly options: unknown[] = [];
  readonly runningChanged = new Signal<this, Model[]>(this);
  loaded = true;

  readonly sessions = { running: () => this.models, runningChanged: this.runningChanged };
  readonly kernels = {
    connectTo: (options: unknown) => {
      this.options.push(options);
      const kernel = new FakeKernel();
      kernel.loaded = this.loaded;
      kernel.runs = [row(3)];
      this.connections.push(kernel);
      return kernel;
    },
  };

  async poll(): Promise<void> {
    this.runningChanged.emit(this.models);
    await settle();
  }
}

let services: FakeServices;
let hub: Hub;

function listeners(kernel: FakeKernel): number {
  const { statusChanged, connectionStatusChanged, iopubMessage } = kernel;
  return statusChanged.count + connectionStatusChanged.count + iopubMessage.count;
}

async function visit(restored = Promise.resolve()): Promise<void> {
  new Visits(services as never, hub, restored);
  await settle();
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  services = new FakeServices();
  services.models.push({ path: "a.ipynb", kernel: { id: "k" } });
  hub = new Hub({ currentWidget: null } as never, null, null);
});

afterEach(() => {
  sessionStorage.clear();
  vi.useRealTimers();
});

describe("a kernel whose document is closed", () => {
  it("is followed over a connection that leaves the comms to the document", async () => {
    await visit();
    expect(services.options).toEqual([{ model: { id: "k" }, handleComms: false }]);
    const [kernel] = [...hub];
    expect(kernel.state).toBe("open");
    expect(kernel.context).toBeNull();
    expect(kernel.overview.runs).toEqual([row(3)]);
    await services.poll();
    expect(services.connections).toHaveLength(1);
  });

  it("is left alone where it has nothing to tell, and not asked again and again", async () => {
    services.loaded = false;
    await visit();
    await services.poll();
    const [connection] = services.connections;
    expect(services.connections).toHaveLength(1);
    expect(connection.isDisposed).toBe(true);
    expect(connection.opened).toEqual([]);
    expect([...hub]).toEqual([]);
    services.models[0] = { path: "a.ipynb", kernel: { id: "another" } };
    await services.poll();
    expect(services.connections).toHaveLength(2);
  });

  it("is given up when it ends", async () => {
    await visit();
    const [connection] = services.connections;
    services.models.length = 0;
    connection.statusChanged.emit("dead");
    await settle();
    expect([...hub]).toEqual([]);
    expect(hub.find("a.ipynb")?.state).toBe("closed");
    expect(connection.isDisposed).toBe(true);
    expect(listeners(connection)).toBe(0);
  });

  it("is followed from the moment in which the document is closed", async () => {
    await visit();
    services.models.push({ path: "b.ipynb", kernel: { id: "b" } });
    const context = new FakeContext("b.ipynb", new FakeKernel());
    hub.add({ sessionContext: context.real });
    await settle();
    expect(services.connections).toHaveLength(1);
    context.dispose();
    await settle();
    expect(services.connections).toHaveLength(2);
    expect(hub.find("b.ipynb")?.state).toBe("open");
  });
});

describe("a document that is opened while its kernel is visited", () => {
  let connection: FakeKernel;
  let own: FakeKernel;

  /** Open the document; JupyterLab connects it to a kernel. */
  function open(kernel = own): FakeContext {
    const context = new FakeContext("a.ipynb", kernel);
    hub.add({ sessionContext: context.real });
    return context;
  }

  beforeEach(async () => {
    await visit();
    [connection] = services.connections;
    own = new FakeKernel();
    own.join(connection);
  });

  it("takes over what has been opened, and loses nothing that is said", async () => {
    const link = hub.at("a.ipynb");
    open();
    expect(link.state).toBe("open");
    await settle(0.5);
    // What it had still to bring.
    expect(connection.isDisposed).toBe(false);
    own.tell(row(3, { epoch: 3 }));
    expect(link.overview.run("r3")?.epoch).toBe(3);
    await settle(0.5);
    expect(connection.isDisposed).toBe(true);
    expect([...connection.errors, ...own.errors]).toEqual([]);
    expect([...hub]).toEqual([link]);
    expect(own.of("comm_open")).toEqual([]);
    // As both connections may bring it.
    own.tell(row(3, { epoch: 2 }));
    own.pages[0].seq -= 1;
    own.tell(row(3, { epoch: 2 }));
    expect(link.overview.run("r3")?.epoch).toBe(2);
    expect(own.said("hello")).toEqual([]);
    link.send({ type: "hello" });
    expect(own.said("hello")).toHaveLength(1);
  });

  it("waits as long as JupyterLab holds its own connection back", async () => {
    let answer = (): void => undefined;
    own.info = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const context = open();
    await settle();
    expect(connection.isDisposed).toBe(false);
    // JupyterLab's own connection comes and goes meanwhile: that is not ours.
    context.reconnect();
    expect(hub.find("a.ipynb")?.state).toBe("open");
    answer();
    await settle(1);
    expect(connection.isDisposed).toBe(true);
  });

  it("and closed at once leaves the visit as it was", async () => {
    own.info = new Promise(() => undefined);
    open().dispose();
    await settle();
    expect(connection.isDisposed).toBe(false);
    expect(services.connections).toHaveLength(1);
    expect(hub.find("a.ipynb")?.state).toBe("open");
  });

  it("with another kernel asks that one", async () => {
    const other = new FakeKernel("python", "another");
    other.runs = [row(1)];
    open(other);
    await settle();
    expect(connection.isDisposed).toBe(true);
    expect(hub.find("a.ipynb")?.overview.runs).toEqual([row(1)]);
    expect(other.said("watch")).toEqual([]);
  });

  it("is told of a restart as ever, and of what is loaded then", async () => {
    own.info = new Promise(() => undefined);
    const context = open();
    await settle();
    await context.restart();
    expect(connection.isDisposed).toBe(true);
    expect(hub.find("a.ipynb")?.state).toBe("lost");
    own.load();
    await settle();
    expect(hub.find("a.ipynb")?.state).toBe("open");
  });
});

describe("a page that is loaded anew", () => {
  /** A layout that is never restored. */
  const never = new Promise<void>(() => undefined);

  it("visits what it followed before the layout opens it again", async () => {
    await visit();
    hub = new Hub({ currentWidget: null } as never, null, null);
    services.models.push({ path: "b.ipynb", kernel: { id: "b" } });
    await visit(never);
    expect(services.options.slice(1)).toEqual([{ model: { id: "k" }, handleComms: false }]);
    expect(hub.find("a.ipynb")?.state).toBe("open");
  });

  it("has told the kernel that it leaves", async () => {
    await visit();
    const [connection] = services.connections;
    window.dispatchEvent(new Event("pagehide"));
    await settle();
    expect(connection.pages).toEqual([]);
    expect(connection.of("delete_subshell_request")).toHaveLength(1);
  });

  it("leaves to the layout whatever did not train", async () => {
    await visit();
    services.connections[0].tell(row(3, { state: "finished" }));
    hub = new Hub({ currentWidget: null } as never, null, null);
    await visit(never);
    expect(services.connections).toHaveLength(1);
  });

  it("follows a document that a visit had nothing to tell of, once it is closed", async () => {
    services.loaded = false;
    await visit();
    const context = new FakeContext("a.ipynb", new FakeKernel());
    hub.add({ sessionContext: context.real });
    await settle();
    await services.poll();
    services.loaded = true;
    context.dispose();
    await settle();
    expect(services.connections).toHaveLength(2);
    expect(hub.find("a.ipynb")?.state).toBe("open");
  });
});

it("a session without a kernel is passed over", async () => {
  services.models[0] = { path: "a.ipynb", kernel: null };
  await visit();
  expect(services.connections).toEqual([]);
});
