/** A document with a kernel that has trained, and our link to it; nothing may be left of it. */

import { afterEach, beforeEach, expect, vi } from "vitest";

import { KernelLink } from "../../src/lab/link";
import { PageMemory } from "../../src/lab/page-memory";
import { listener } from "../fakes";
import { FakeKernel } from "./kernel-fakes";
import { row } from "./panel-fakes";
import { FakeContext, settle } from "./session-fakes";

export class Fixture {
  kernel = new FakeKernel();
  context = new FakeContext("work/first.ipynb", this.kernel);
  memory = new PageMemory();
  link = new KernelLink("work/first.ipynb", this.memory);

  constructor() {
    this.kernel.runs = [row(3)];
  }

  async open(): Promise<void> {
    this.link.attach(this.context.real);
    await settle();
  }

  /** Open a view's channel; what becomes of it is told later. */
  view(run = "r3") {
    const view = listener();
    const channel = this.link.channel(run);
    const [opened, refused] = [vi.fn(), vi.fn()];
    channel.open(view).then(opened, refused);
    return { channel, listener: view, opened, refused };
  }

  /** How often the comms were opened. */
  get openings(): number {
    return this.kernel.opened.filter((target) => target === "tos.control").length;
  }

  async close(): Promise<void> {
    const { context, kernel, link } = this;
    link.detach();
    await settle();
    expect(link.state).toBe("closed");
    expect(context.listeners + kernel.iopubMessage.count).toBe(0);
    expect([kernel.subshells.size, kernel.pages.length]).toEqual([0, 0]);
    expect(vi.getTimerCount()).toBe(0);
    expect(kernel.errors).toEqual([]);
  }
}

/** A new one for each test, in `on.it`. */
export function useFixture(): { it: Fixture } {
  const on = {} as { it: Fixture };
  beforeEach(() => {
    // Not the frames in which Lumino tidies up.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
    on.it = new Fixture();
  });
  afterEach(async () => {
    await on.it.close();
    vi.useRealTimers();
  });
  return on;
}
