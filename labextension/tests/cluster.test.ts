/** The live view of a TensorFlow cluster, with the test in the kernel's place. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import view from "../src/cluster-widget";
import { reachable } from "../src/view/board";
import { SETTLE } from "../src/view/buttons";
import { type ClusterState, fedShare, feedText } from "../src/view/cluster";
import { AGAIN, SILENCE } from "../src/view/cluster-view";
import { setTranslation } from "../src/view/text";
import { browser, pair } from "./fakes";

let models: ReturnType<typeof pair>;
let root: HTMLElement;
let destroy: () => void;

function cluster(changes: Partial<ClusterState> = {}): ClusterState {
  return {
    ...{ id: "c", number: 2, state: "running", feed: null, tensorboard: null, failure: null },
    ...{ elapsed: 3, notes: [] },
    nodes: [
      { name: "ps:0", host: "h", state: "running", rows: 0, gpus: "", lines: [] },
      { name: "worker:0", host: "h", state: "running", rows: 7, gpus: "0", lines: ["<b>1</b>"] },
    ],
    ...changes,
  };
}

function tell(changes: Partial<ClusterState> = {}, active = true): void {
  models.stream.emit({ type: "cluster", active, state: cluster(changes) });
}

function find(selector: string): HTMLElement {
  const found = root.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`Expected ${selector}.`);
  return found;
}

const text = (selector: string): string => find(selector).textContent;

beforeEach(async () => {
  vi.useFakeTimers();
  browser();
  models = pair();
  const el = document.body.appendChild(document.createElement("div"));
  destroy = view.render({ model: models.stream, el });
  root = el.querySelector<HTMLElement>(".tos-cluster") ?? el;
  await vi.advanceTimersByTimeAsync(0);
});

afterEach(() => {
  destroy();
  document.body.replaceChildren();
  setTranslation(null);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("a cluster's view", () => {
  it("says hello, and again where nothing comes", () => {
    expect(models.control.sent).toMatchObject([{ type: "hello" }]);
    vi.advanceTimersByTime(AGAIN + 2000);
    expect(models.control.sent).toHaveLength(2);
    tell();
    vi.advanceTimersByTime(2 * AGAIN);
    expect(models.control.sent).toHaveLength(2);
  });

  it("shows each node and the last lines of its output, as text", () => {
    tell();
    const rows = [...root.querySelectorAll("tbody tr")].map((row) =>
      [...row.children].map((cell) => cell.textContent),
    );
    expect(rows).toEqual([
      ["ps:0", "▶ running", "h", "", "none"],
      ["worker:0", "▶ running", "h", "7", "0"],
    ]);
    expect(text('[aria-label="Last lines of worker:0"]')).toBe("<b>1</b>");
    expect(find('[aria-label="Last lines of ps:0"]').closest("details")?.hidden).toBe(true);
    expect(root.querySelector("caption")?.textContent).toBe("Nodes of the cluster");
  });

  it("says to a screen reader how it stands, and what has failed", () => {
    tell();
    expect(text('[data-tos="status"]')).toBe("Cluster 2 is running: 2 of 2 nodes run.");
    const failure = { message: "ValueError: mine", where: "worker:0 on h", frames: [], rest: "" };
    tell({ state: "failed", failure, nodes: [] }, false);
    expect(text('[data-tos="status"]')).toContain("has failed: 0 of 0 nodes run. ValueError: mine");
  });

  it("shows the error with the user's own line first", () => {
    const frames = ['File "Cell In[3]", line 4, in main', "    raise ValueError()"];
    const failure = { message: "ValueError: mine", where: "worker:0 on h", frames, rest: "more" };
    tell({ failure });
    expect(text(".tos-error-message")).toBe("ValueError: mine");
    expect(text(".tos-error .tos-caption")).toBe("On worker:0 on h.");
    expect(text(".tos-error pre")).toContain("Cell In[3]");
  });

  it("says what the cluster went through, in sight and to a screen reader", () => {
    tell();
    expect(find('[data-tos="notes"]').hidden).toBe(true);
    tell({ notes: ["It begins again.", "TensorBoard has ended: <no>"] });
    expect(text('[data-tos="notes"]')).toBe("It begins again.\nTensorBoard has ended: <no>");
    expect(text('[data-tos="status"]')).toContain("run. It begins again. TensorBoard has");
  });

  it("is stopped by the second click, and says so", () => {
    tell();
    const stop = find('[data-tos="stop"]');
    stop.click();
    expect(text(".tos-note")).toBe("Click again to end all nodes.");
    vi.advanceTimersByTime(SETTLE);
    stop.click();
    expect(models.control.sent.at(-1)).toMatchObject({ type: "command", command: "stop" });
    tell({ state: "stopping" });
    expect(stop.getAttribute("aria-disabled")).toBe("true");
    tell({ state: "stopped" }, false);
    expect(find(".tos-buttons").hidden).toBe(true);
  });

  it("shows a refusal", () => {
    tell();
    models.control.emit({ type: "answer", id: 1, ok: false, text: "no" });
    expect(text(".tos-note")).toBe("no");
  });

  it("says that the kernel does not answer, until it does", () => {
    tell();
    vi.advanceTimersByTime(SILENCE + 2000);
    expect(text(".tos-notice")).toContain("does not answer");
    tell();
    expect(find(".tos-notice").hidden).toBe(true);
  });

  it("shows how far the feeding is", () => {
    const feed = { data: "rows", epoch: 2, epochs: 4, partitions: 4, fed: 2, over: false };
    expect(fedShare(feed)).toBe(0.375);
    expect(fedShare({ ...feed, over: true })).toBe(1);
    expect(fedShare({ ...feed, epoch: 0 })).toBe(0);
    expect(feedText({ ...feed, epoch: 0 })).toBe("not fed yet");
    tell({ feed });
    expect(text('[data-tos="feed"]')).toBe("rows: epoch 2 of 4, 2 of 4 partitions");
  });

  it("keeps the notebook's own keys from what is typed in it", () => {
    const heard = vi.fn();
    document.body.addEventListener("keydown", heard);
    tell();
    find('[data-tos="stop"]').dispatchEvent(
      new KeyboardEvent("keydown", { key: "d", bubbles: true }),
    );
    expect(heard).not.toHaveBeenCalled();
    document.body.removeEventListener("keydown", heard);
  });
});

describe("TensorBoard", () => {
  it("is linked where this browser reaches it, and loaded once it is opened", () => {
    tell({ tensorboard: "http://127.0.0.1:6006" });
    const frame = find("iframe");
    expect(find('[data-tos="tensorboard"] a').getAttribute("href")).toBe("http://127.0.0.1:6006");
    expect(frame.hasAttribute("src")).toBe(false);
    const details = frame.closest("details");
    if (details) details.open = true;
    details?.dispatchEvent(new Event("toggle"));
    expect(frame.getAttribute("src")).toBe("http://127.0.0.1:6006");
    tell({ tensorboard: "http://127.0.0.1:6006", state: "finished" }, false);
    expect(find('[data-tos="tensorboard"]').hidden).toBe(true);
  });

  it("is no link to another machine's own address, nor to a script", () => {
    expect(reachable("http://127.0.0.1:6006", "hub.example.org")).toBe(false);
    expect(reachable("http://10.0.0.7:6006", "hub.example.org")).toBe(true);
    expect(reachable("javascript:alert(1)", "localhost")).toBe(false);
  });
});

it("nothing is shown that is not translated", () => {
  destroy();
  document.body.replaceChildren();
  const foreign = (words: string): string => words.replace(/[A-Za-z]/g, "ж");
  const put = (words: string, values: (string | number)[]): string =>
    foreign(words).replace(/%(\d+)/g, (_, place: string) => String(values[Number(place) - 1]));
  setTranslation({
    __: (words, ...values) => put(words, values),
    _n: (one, many, n, ...values) => put(n === 1 ? one : many, [n, ...values]),
  });
  const el = document.body.appendChild(document.createElement("div"));
  destroy = view.render({ model: models.stream, el });
  root = el.querySelector<HTMLElement>(".tos-cluster") ?? el;
  const nodes = ["waiting", "ready", "running", "done", "failed", "lost", "stopped"].map(
    (state) => ({ name: "7", host: "7", state, rows: 7, gpus: "", lines: ["7"] }),
  );
  const feed = { data: "7", epoch: 1, epochs: 4, partitions: 4, fed: 2, over: false };
  tell({ nodes, feed });
  expect(root.textContent).toContain("ж");
  expect(root.textContent.replaceAll("TensorBoard", "")).not.toMatch(/[A-Za-z]/);
});
