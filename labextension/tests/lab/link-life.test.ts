import { beforeEach, describe, expect, it } from "vitest";

import { useFixture } from "./link-fixture";
import { row } from "./panel-fakes";
import { settle, until } from "./session-fakes";

const REFUSED = ["Refused: tos.control", "Refused: tos.stream"];

const on = useFixture();

describe("a restart", () => {
  beforeEach(() => on.it.open());

  it("leaves what was known, and answers what was asked", async () => {
    const { context, link } = on.it;
    const answer = link.command("r3", "stop");
    await context.restart();
    expect(link.state).toBe("lost");
    expect(link.overview.runs).toEqual([row(3)]);
    expect((await answer).ok).toBe(false);
    expect((await link.command("r3", "stop")).ok).toBe(false);
    expect(await link.picture({ run: "r3" })).toBeNull();
    expect(on.it.openings).toBe(1);
  });

  it("leaves nothing of a kernel that had no runs", async () => {
    const { context, kernel, link } = on.it;
    kernel.runs = [];
    link.send({ type: "hello" });
    await settle();
    await context.restart();
    expect(link.state).toBe("absent");
  });

  it("ends when tos_notebook is loaded again; the views go on", async () => {
    const { context, kernel, link } = on.it;
    const { channel } = on.it.view();
    await settle();
    channel.hello();
    channel.pace(5);
    await context.restart();
    channel.pace(2);
    kernel.runs = [row(1)];
    kernel.load();
    await settle();
    expect(link.state).toBe("open");
    expect(on.it.openings).toBe(2);
    expect(link.overview.runs).toEqual([row(1)]);
    const [before, after] = kernel.said("watch");
    expect(after).toEqual({ ...before, seconds: 2 });
  });

  it.each(["autorestarting", "dead"])("by itself: %s", async (status) => {
    const { context, kernel, link } = on.it;
    kernel.status = status;
    context.statusChanged.emit(status);
    expect(link.state).toBe("lost");
    kernel.restart();
    kernel.status = "idle";
    await settle();
  });

  it("refuses who waits for a run of before", async () => {
    const { context } = on.it;
    const { refused, opened } = on.it.view("r9");
    await settle();
    expect(opened).toHaveBeenCalledOnce();
    await context.restart();
    const late = on.it.view("r9");
    await settle();
    expect(late.refused).toHaveBeenCalledOnce();
    expect(refused).not.toHaveBeenCalled();
  });
});

describe("a connection that was lost", () => {
  it("is made anew under the same name, and the views go on", async () => {
    const { context, kernel, link } = on.it;
    await on.it.open();
    const { channel } = on.it.view();
    await settle();
    channel.hello();
    const answer = link.command("r3", "stop");
    context.reconnect();
    expect(link.state).toBe("opening");
    await settle();
    expect(link.state).toBe("open");
    expect((await answer).ok).toBe(false);
    const names = new Set(kernel.of("comm_open").map(({ content }) => content.data));
    expect(new Set([...names].map((data) => JSON.stringify(data))).size).toBe(1);
    expect(kernel.pages).toHaveLength(1);
    expect(kernel.said("watch")).toHaveLength(2);
  });

  it("is made anew also where it was only being made", async () => {
    const { context, kernel, link } = on.it;
    kernel.hold();
    await on.it.open();
    const { opened } = on.it.view();
    expect(link.state).toBe("opening");
    context.reconnect();
    kernel.release();
    await settle();
    expect(on.it.openings).toBe(2);
    expect(link.state).toBe("open");
    expect(opened).toHaveBeenCalledOnce();
  });

  it("may have swallowed that tos_notebook was loaded", async () => {
    const { context, kernel, link } = on.it;
    kernel.loaded = false;
    await on.it.open();
    kernel.loaded = true;
    context.reconnect();
    await settle();
    expect(link.state).toBe("open");
  });
});

describe("a kernel that closes the comms", () => {
  it("is asked again once", async () => {
    const { kernel, link } = on.it;
    await on.it.open();
    const states: string[] = [];
    link.changed.connect(() => states.push(link.state));
    kernel.close();
    await settle();
    expect(states).toEqual(["opening", "open"]);
    expect(on.it.openings).toBe(2);
  });

  it("because it has unloaded tos_notebook is left in peace", async () => {
    const { kernel, link } = on.it;
    await on.it.open();
    kernel.loaded = false;
    kernel.close();
    await settle(600);
    expect(link.state).toBe("lost");
    expect(on.it.openings).toBe(2);
    expect(kernel.errors.splice(0)).toEqual(REFUSED);
  });

  it("while they are being opened has none", async () => {
    const { kernel, link } = on.it;
    kernel.loaded = false;
    await on.it.open();
    // It was announced, and taken back at once.
    kernel.targets.get("tos.kernel")?.();
    const { refused } = on.it.view();
    await settle(600);
    expect(link.state).toBe("absent");
    expect(refused).toHaveBeenCalledOnce();
    expect(on.it.openings).toBe(1);
    expect(kernel.errors.splice(0)).toEqual(REFUSED);
  });
});

describe("a document that is closed", () => {
  it("keeps what is known; opened again, it goes on and who waits is served", async () => {
    const { context, kernel, link } = on.it;
    await on.it.open();
    link.detach();
    link.detach();
    await settle();
    expect(link.state).toBe("closed");
    expect(link.context).toBeNull();
    expect(link.overview.runs).toEqual([row(3)]);
    expect(kernel.pages).toEqual([]);
    const { opened } = on.it.view();
    await settle(60);
    expect(opened).not.toHaveBeenCalled();
    link.attach(context.real);
    expect(link.state).toBe("lost");
    await settle();
    expect(link.state).toBe("open");
    expect(opened).toHaveBeenCalledOnce();
  });

  it("while its kernel is asked leaves nothing behind", async () => {
    const { context, kernel, link } = on.it;
    for (const request of ["comm_info_request", "create_subshell_request"]) {
      link.attach(context.real);
      await until(() => kernel.of(request).length > 0);
      link.detach();
      await settle();
    }
    expect(kernel.opened).toEqual([]);
  });
});
