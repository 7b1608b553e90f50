import { beforeEach, expect, it, vi } from "vitest";

import { intoSight } from "../../src/lab/into-sight";
import { browser, Observer } from "../fakes";

let view: HTMLElement;
let next: HTMLElement;
let scrolled: ReturnType<typeof vi.fn<() => void>>;

/** Where an element seems to be. */
function place(element: Element, top: number, height: number): void {
  element.getBoundingClientRect = () => new DOMRect(0, top, 800, height);
}

function drawn(): void {
  for (const observer of Observer.living) observer.callback([]);
}

beforeEach(() => {
  browser();
  document.body.innerHTML = `<div class="jp-WindowedPanel-outer">
    <div class="jp-Notebook jp-mod-commandMode">
      <div class="jp-Cell"><div id="view"></div></div><div class="jp-Cell jp-mod-active"></div>
    </div></div>`;
  const find = (selector: string): HTMLElement =>
    document.querySelector<HTMLElement>(selector) ?? document.body;
  view = find("#view");
  next = find(".jp-mod-active");
  place(find(".jp-WindowedPanel-outer"), 90, 680);
  place(find(".jp-Cell"), 500, 700);
  place(view, 715, 517);
  scrolled = vi.fn<() => void>();
  view.scrollIntoView = scrolled;
});

it("a view below the window's edge is scrolled into sight once it is drawn, and once", () => {
  intoSight(view);
  place(view, 715, 20);
  drawn();
  expect(scrolled).not.toHaveBeenCalled();
  place(view, 715, 517);
  drawn();
  expect(scrolled).toHaveBeenCalledExactlyOnceWith({ block: "nearest" });
  expect(Observer.living.size).toBe(0);
});

it.each<[string, () => void]>([
  [
    "sees all of it",
    () => {
      place(view, 200, 517);
    },
  ],
  [
    "has scrolled past it",
    () => {
      place(view, -600, 900);
    },
  ],
  [
    "types in another cell",
    () => {
      document.querySelector(".jp-Notebook")?.classList.remove("jp-mod-commandMode");
    },
  ],
  [
    "has chosen another cell",
    () => {
      next.classList.remove("jp-mod-active");
    },
  ],
])("nothing moves under a person who %s", (_, does) => {
  intoSight(view);
  does();
  drawn();
  expect(scrolled).not.toHaveBeenCalled();
});

it("nothing moves for an output that is gone", () => {
  intoSight(view)();
  expect(Observer.living.size).toBe(0);
});
