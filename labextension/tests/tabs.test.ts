import { beforeEach, describe, expect, it, vi } from "vitest";

import { Tabs } from "../src/view/tabs";

const changed = vi.fn();
let tabs: Tabs;

function made(): Tabs {
  const panes = ["one", "two", "three"].map((name) => ({
    ...{ name, label: name, element: document.createElement("p") },
  }));
  const created = new Tabs(panes, changed);
  document.body.replaceChildren(created.element);
  return created;
}

const tab = (name: string): HTMLElement => {
  const found = tabs.element.querySelector<HTMLElement>(`[data-tab="${name}"]`);
  if (!found) throw new Error(`Expected a tab ${name}.`);
  return found;
};
const shown = (): string[] =>
  [...tabs.element.querySelectorAll<HTMLElement>('[role="tabpanel"]')]
    .filter(({ hidden }) => !hidden)
    .map((panel) => panel.getAttribute("aria-labelledby") ?? "");
const selected = (): (string | undefined)[] =>
  [...tabs.element.querySelectorAll<HTMLElement>('[aria-selected="true"]')].map(
    ({ dataset }) => dataset.tab,
  );
const press = (name: string, key: string): boolean =>
  tab(name).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

beforeEach(() => {
  localStorage.clear();
  changed.mockClear();
  tabs = made();
});

describe("tabs", () => {
  it("show one pane, which a click changes, also for the next view", () => {
    expect(selected()).toEqual(["one"]);
    tab("two").click();
    expect(selected()).toEqual(["two"]);
    expect(shown()).toEqual([tab("two").id]);
    expect(changed).toHaveBeenCalledOnce();
    tabs = made();
    expect(selected()).toEqual(["two"]);
  });

  it("opened by the view itself are not remembered", () => {
    tabs.select("two");
    expect(selected()).toEqual(["two"]);
    tabs = made();
    expect(selected()).toEqual(["one"]);
  });

  it("are one stop of the keyboard, whose arrows move between those that are offered", () => {
    tabs.offer("two", false);
    expect(tabs.element.querySelectorAll('[role="tab"][tabindex="0"]')).toHaveLength(1);
    expect(press("one", "ArrowRight")).toBe(false);
    expect(selected()).toEqual(["three"]);
    expect(document.activeElement).toBe(tab("three"));
    press("three", "ArrowRight");
    expect(selected()).toEqual(["one"]);
    press("one", "End");
    expect(selected()).toEqual(["three"]);
    expect(press("three", "d")).toBe(true);
  });

  it("whose pane is empty give way to another, and come back", () => {
    tab("two").click();
    tabs.offer("two", false);
    expect(selected()).toEqual(["one"]);
    tabs.offer("two", true);
    expect(selected()).toEqual(["two"]);
  });
});
