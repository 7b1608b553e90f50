import { Widget } from "@lumino/widgets";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { KernelLink } from "../../src/lab/link";
import { RUN_MIME } from "../../src/lab/protocol";
import { RunOutput } from "../../src/lab/run-output";
import { browser, Observer } from "../fakes";
import { useFixture } from "./link-fixture";
import { current, shown, rendermime, Saved, settings, WIDGET_MIME } from "./output-fixture";
import { row } from "./panel-fakes";
import { settle } from "./session-fakes";

vi.mock("@jupyterlab/rendermime", async () => ({
  MimeModel: (await import("./output-fixture")).FakeMimeModel,
}));
vi.mock("uplot", () => import("../fake-uplot"));

const on = useFixture();
let link: KernelLink | null;
let output: RunOutput;
let hidden: boolean;

async function render(run = "r3", trusted = true): Promise<void> {
  void output.renderModel(shown(run, trusted));
  await settle();
}

function isLive(): boolean {
  return output.node.querySelector(".tos-run") !== null;
}

function pace(): unknown {
  const { kernel } = on.it;
  return (kernel.said("pace").findLast(({ view }) => view) ?? kernel.said("watch")[0]).seconds;
}

beforeEach(() => {
  browser();
  hidden = false;
  vi.spyOn(document, "hidden", "get").mockImplementation(() => hidden);
  Saved.all.length = 0;
  Saved.wait = Promise.resolve();
  current.updateSeconds = 0.2;
  ({ link } = on.it);
  output = new RunOutput(() => link, rendermime as never, settings as never);
  Widget.attach(output, document.body);
});

afterEach(async () => {
  output.dispose();
  output.dispose();
  for (const saved of Saved.all) expect(saved.isDisposed).toBe(true);
  expect(Observer.living.size).toBe(0);
  await settle();
  vi.restoreAllMocks();
});

describe("an output of a run", () => {
  it("is live where the kernel knows the run", async () => {
    await on.it.open();
    await render();
    expect(isLive()).toBe(true);
    expect(Saved.all).toEqual([]);
    expect(on.it.kernel.said("watch")).toMatchObject([{ run: "r3" }]);
    output.dispose();
    await settle();
    expect(on.it.kernel.said("unwatch")).toHaveLength(1);
  });

  it("keeps its view while what is saved of the run is renewed", async () => {
    await on.it.open();
    await render();
    const view = output.node.querySelector(".tos-run");
    await render();
    expect(output.node.querySelector(".tos-run")).toBe(view);
    expect(on.it.kernel.said("watch")).toHaveLength(1);
    expect(Saved.all).toEqual([]);
  });

  it("shows what was saved until the kernel has told of the run", async () => {
    on.it.kernel.hold();
    await on.it.open();
    await render();
    expect(output.node.textContent).toBe("text/html");
    on.it.kernel.release();
    await settle();
    expect(isLive()).toBe(true);
    expect(output.node.children).toHaveLength(1);
  });

  it("is live as soon as the kernel has told of the run, however late", async () => {
    await on.it.open();
    await render("r9");
    expect(isLive()).toBe(false);
    on.it.kernel.tell(row(8));
    await settle();
    expect(isLive()).toBe(false);
    on.it.kernel.tell(row(9));
    await settle();
    expect(isLive()).toBe(true);
    expect(on.it.kernel.said("watch").at(-1)).toMatchObject({ run: "r9" });
  });

  it("asks for its snapshot with the first words to the kernel, and once", async () => {
    on.it.kernel.hold();
    on.it.link.attach(on.it.context.real);
    await render();
    expect(isLive()).toBe(false);
    expect(on.it.kernel.said("watch")).toMatchObject([{ run: "r3" }]);
    on.it.kernel.release();
    await settle();
    expect(isLive()).toBe(true);
    expect(on.it.kernel.said("watch")).toHaveLength(1);
  });

  it("asks no more where the kernel turns out not to know the run", async () => {
    on.it.link.attach(on.it.context.real);
    await render("r9");
    expect(on.it.kernel.said("unwatch")).toHaveLength(1);
  });

  it("shows what was saved where the kernel does not know the run", async () => {
    await on.it.open();
    await render("r9");
    expect(output.node.textContent).toBe("text/html");
    expect(Saved.all).toHaveLength(1);
    expect(on.it.kernel.said("watch")).toEqual([]);
  });

  it("draws it once, also where it was there before the kernel", async () => {
    on.it.link.attach(on.it.context.real);
    await render("r9");
    expect(on.it.link.state).toBe("open");
    expect(output.node.textContent).toMatch(/^✕ lost.*text.html$/);
    expect(Saved.all).toHaveLength(1);
  });

  it("shows what was saved where the kernel has no tos_notebook, or there is none", async () => {
    on.it.kernel.loaded = false;
    await on.it.open();
    await render();
    expect(output.node.textContent).toMatch(/^✕ lost.*text.html$/);
    link = null;
    await render();
    expect(output.node.textContent).toBe("text/html");
    expect(isLive()).toBe(false);
  });

  it("shows safe representations alone in a notebook that is not trusted", async () => {
    link = null;
    await render("r3", false);
    expect(rendermime.preferredMimeType.mock.lastCall).toEqual([
      { "text/html": "a picture" },
      "ensure",
    ]);
  });

  it("goes to the widget where nothing else was saved, and stays empty without anything", async () => {
    link = null;
    const data = { [RUN_MIME]: { run: "r3", number: 3 }, [WIDGET_MIME]: {} };
    await output.renderModel({ data, metadata: {}, trusted: true } as never);
    expect(output.node.textContent).toBe(WIDGET_MIME);
    rendermime.preferredMimeType.mockReturnValueOnce(undefined);
    await render();
    expect(Saved.all).toHaveLength(1);
  });

  it("keeps its view when it is drawn again", async () => {
    await on.it.open();
    await render();
    const view = output.node.firstElementChild;
    await render();
    expect(output.node.firstElementChild).toBe(view);
    expect(on.it.kernel.said("watch")).toHaveLength(1);
  });

  it("keeps its view when the kernel is restarted", async () => {
    await on.it.open();
    await render();
    await on.it.context.restart();
    await settle(60);
    expect(isLive()).toBe(true);
  });
});

describe("an output that is gone", () => {
  it("while what was saved is drawn shows nothing", async () => {
    let draw = (): void => undefined;
    Saved.wait = new Promise((resolve) => {
      draw = resolve;
    });
    link = null;
    await render();
    output.dispose();
    draw();
    await settle();
    expect(output.node.children).toHaveLength(0);
  });

  it("while the kernel is asked opens no view", async () => {
    on.it.link.attach(on.it.context.real);
    void render();
    output.dispose();
    await settle();
    expect(on.it.kernel.said("watch")).toEqual([]);
  });
});

describe("an output's pace", () => {
  beforeEach(async () => {
    await on.it.open();
    on.it.kernel.tell(row(3));
  });

  it("is slow while its notebook or the page is hidden", async () => {
    await render();
    expect(pace()).toBe(0.2);
    output.hide();
    expect(pace()).toBe(5);
    output.show();
    expect(pace()).toBe(0.2);
    hidden = true;
    document.dispatchEvent(new Event("visibilitychange"));
    expect(pace()).toBe(5);
  });

  it("is slow from the first for one that nobody sees", async () => {
    Widget.detach(output);
    await render();
    expect(pace()).toBe(5);
    Widget.attach(output, document.body);
    expect(pace()).toBe(0.2);
  });

  it("is not faster hidden than seen", async () => {
    current.updateSeconds = 10;
    await render();
    output.hide();
    expect(pace()).toBe(10);
  });

  it("follows the settings, and no longer once it is gone", async () => {
    await render();
    current.updateSeconds = 2;
    settings.changed.emit({});
    expect(pace()).toBe(2);
    output.dispose();
    current.updateSeconds = 3;
    settings.changed.emit({});
    expect(pace()).toBe(2);
  });
});

it("a view whose kernel was restarted says so", async () => {
  await on.it.open();
  await render();
  await on.it.context.restart();
  expect(output.node.querySelector(".tos-notice")?.textContent).toContain("was restarted");
});
