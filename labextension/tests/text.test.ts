import { afterEach, expect, it, vi } from "vitest";

import { bytes, count, duration, number, short, shortened } from "../src/view/format";
import { lines } from "../src/view/log";
import { stragglerText } from "../src/view/stragglers";
import { isDark } from "../src/view/theme";
import { entered, worker } from "./fakes";

afterEach(() => {
  document.body.removeAttribute("data-jp-theme-light");
  document.body.className = "";
  vi.unstubAllGlobals();
});

it("numbers are read by people", () => {
  expect([number(0.123456), number(1e-7), number(null), number(0)]).toEqual(["0.1235", "1.00e-7", "–", "0"]); // prettier-ignore
  expect([short(950), short(12_345), short(2.5e6), short(0.5)]).toEqual(["950", "12.3k", "2.5M", "0.5"]); // prettier-ignore
  expect([bytes(12), bytes(62_800), bytes(5e9)]).toEqual(["12 B", "62.8 kB", "5 GB"]);
  expect([count(1234.4), count(undefined)]).toEqual(["1,234", "–"]);
});

it("a long name keeps both ends, and no character is cut in two", () => {
  expect(shortened("exec-7", 12)).toBe("exec-7");
  expect(shortened("abcdefghijklmnop", 12)).toBe("abcdefgh…nop");
  expect(shortened("🐍".repeat(13), 12)).toBe(`${"🐍".repeat(8)}…${"🐍".repeat(3)}`);
});

it.each([
  [0.0123, "12 ms"],
  [0.5, "0.5 s"],
  [12.2, "12 s"],
  [59.7, "1 min 00 s"],
  [245, "4 min 05 s"],
  [7980, "2 h 13 min"],
  [null, "–"],
])("%s seconds are %s", (seconds, expected) => {
  expect(duration(seconds)).toBe(expected);
});

it("stragglers are named in words, three at most", () => {
  const slow = [0, 1, 2, 3].map((i) => worker(i, { note: "behind: 41 % of the median pace" }));
  expect(stragglerText([worker(0)])).toBe("");
  expect(stragglerText(slow.slice(0, 1))).toBe(
    "stragglers: executor 0, partition 0, is behind: 41 % of the median pace",
  );
  expect(stragglerText(slow)).toContain("; and 1 more");
});

it("commands stand in the log in the order of time", () => {
  const log = [{ time: 5, level: "warning" as const, text: "late" }];
  const commands = [entered({ time: 2, command: "pause" })];
  expect(lines({ log, commands }).map(({ text }) => text)).toEqual(["pause: in force", "late"]);
});

function media(...matching: string[]): void {
  vi.stubGlobal("matchMedia", (query: string) => ({ matches: matching.includes(query) }));
}

it("the page's theme counts before the system's", () => {
  media("(prefers-color-scheme: dark)");
  expect(isDark()).toBe(true);
  document.body.dataset.jpThemeLight = "true";
  expect(isDark()).toBe(false);
  delete document.body.dataset.jpThemeLight;
  document.body.className = "vscode-light";
  expect(isDark()).toBe(false);
  document.body.className = "vscode-dark";
  expect(isDark()).toBe(true);
});

it("forced colours count before the page's theme", () => {
  document.body.dataset.jpThemeLight = "true";
  media("(forced-colors: active)", "(prefers-color-scheme: dark)");
  expect(isDark()).toBe(true);
  document.body.dataset.jpThemeLight = "false";
  media("(forced-colors: active)");
  expect(isDark()).toBe(false);
});
