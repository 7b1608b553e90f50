/** Panes of which one is seen: opening another leaves everything above where it is. */

import { h, setAttribute, setText, uniqueId } from "./dom";
import { prefer, preferred } from "./preferences";
import { t } from "./text";

export interface Pane {
  name: string;
  label: string;
  element: HTMLElement;
}

interface Tab {
  name: string;
  tab: HTMLButtonElement;
  panel: HTMLElement;
}

const CHOSEN = "tab";
const STEPS: Partial<Record<string, (at: number, count: number) => number>> = {
  ArrowRight: (at, count) => (at + 1) % count,
  ArrowLeft: (at, count) => (at + count - 1) % count,
  Home: () => 0,
  End: (_, count) => count - 1,
};

export class Tabs {
  readonly element: HTMLElement;
  private readonly tabs: Tab[];
  private chosen: string;

  /** `changed` is called when another pane is seen. */
  constructor(
    panes: readonly Pane[],
    private readonly changed: () => void,
  ) {
    this.tabs = panes.map(({ name, label, element }) => {
      const [id, panelId] = [uniqueId("tab"), uniqueId("pane")];
      const tab = h(
        "button",
        { id, type: "button", role: "tab", "data-tab": name, "aria-controls": panelId },
        label,
      );
      const panel = h("div", { id: panelId, role: "tabpanel", "aria-labelledby": id }, element);
      tab.addEventListener("click", () => {
        this.select(name);
        prefer(CHOSEN, name);
      });
      return { name, tab, panel };
    });
    const list = h("div", {
      ...{ class: "tos-tablist", role: "tablist", "aria-label": t("More about the run") },
    });
    list.append(...this.tabs.map(({ tab }) => tab));
    list.addEventListener("keydown", this.move);
    this.element = h("div", { class: "tos-tabs" }, list, ...this.tabs.map(({ panel }) => panel));
    this.chosen = preferred(CHOSEN) ?? panes[0].name;
    this.show();
  }

  label(name: string, text: string): void {
    const found = this.tabs.find((one) => one.name === name);
    if (found) setText(found.tab, text);
  }

  /** Whether there is anything in a pane. */
  offer(name: string, offered: boolean): void {
    const found = this.tabs.find((one) => one.name === name);
    if (!found || found.tab.hidden === !offered) return;
    found.tab.hidden = !offered;
    this.show();
  }

  select(name: string): void {
    this.chosen = name;
    this.show();
    this.changed();
  }

  private show(): void {
    const offered = this.tabs.filter(({ tab }) => !tab.hidden);
    const shown = offered.find(({ name }) => name === this.chosen) ?? offered.at(0);
    for (const one of this.tabs) {
      setAttribute(one.tab, "aria-selected", String(one === shown));
      one.tab.tabIndex = one === shown ? 0 : -1;
      one.panel.hidden = one !== shown;
    }
  }

  private readonly move = (event: KeyboardEvent): void => {
    const offered = this.tabs.filter(({ tab }) => !tab.hidden);
    const at = offered.findIndex(({ tab }) => tab === event.target);
    const step = STEPS[event.key];
    if (at < 0 || !step) return;
    event.preventDefault();
    const { tab } = offered[step(at, offered.length)];
    tab.focus();
    tab.click();
  };
}
