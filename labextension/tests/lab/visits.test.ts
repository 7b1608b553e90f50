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

async function visit(): Promise<void> {
  new Visits(services as never, hub);
  await settle();
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  services = new FakeServices();
  services.models.push({ path: "a.ipynb", kernel: { id: "k" } });
  hub = new Hub({ currentWidget: null } as never, null, null);
});

afterEach(() => {
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

  it("is the document's again when that is opened; its views go on", async () => {
    await visit();
    const [link] = [...hub];
    const channel = link.channel("r3");
    await channel.open({ message: vi.fn(), answer: vi.fn() });
    const own = new FakeKernel();
    own.runs = [row(3)];
    hub.add({ sessionContext: new FakeContext("a.ipynb", own).real });
    await settle();
    const [connection] = services.connections;
    expect(connection.isDisposed).toBe(true);
    expect(connection.errors).toEqual([]);
    expect(connection.of("comm_close")).toHaveLength(1);
    expect([...hub]).toEqual([link]);
    expect(link.state).toBe("open");
    expect(own.said("watch")).toHaveLength(1);
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

  it("is given up when it ends", async () => {
    await visit();
    const [connection] = services.connections;
    services.models.length = 0;
    connection.statusChanged.emit("dead");
    await settle();
    expect([...hub]).toEqual([]);
    expect(hub.find("a.ipynb")?.state).toBe("closed");
    expect(connection.isDisposed).toBe(true);
    const { statusChanged, connectionStatusChanged, iopubMessage } = connection;
    expect(statusChanged.count + connectionStatusChanged.count + iopubMessage.count).toBe(0);
  });
});

it("a session without a kernel is passed over", async () => {
  services.models[0] = { path: "a.ipynb", kernel: null };
  await visit();
  expect(services.connections).toEqual([]);
});
