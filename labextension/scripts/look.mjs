/** Takes a screenshot of every state of the built view, measures its frame, and counts frames per second. */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

import { serve } from "./serve.mjs";

/** Of the output's width in a window so wide, beside JupyterLab's file browser; with the page's margins. */
const SIZES = { 1280: [849, 800], 1920: [1489, 1080], 600: [575, 800], tab: [473, 800] };
/** The last one as a system with high contrast forces its colors. */
const THEMES = ["light", "dark", "forced"];
const TWO = "workers=2&executors=2";
const press = (name) => async (page) => {
  await page.click(`[data-tos="${name}"]`);
};
/** Query, and what a person does then. */
const STATES = {
  starting: [`${TWO}&state=starting`],
  queued: [`${TWO}&state=queued`],
  running: [TWO],
  waiting: [`${TWO}&state=waiting`],
  steering: [TWO, press("steer")],
  changed: [
    TWO,
    async (page) => {
      await press("steer")(page);
      await page.selectOption('[data-tos="combiner"] select', "easgd");
      await page.fill('[data-tos="learning-rate"] input', "5");
      await press("apply")(page);
    },
  ],
  asked: [
    `${TWO}&live=1`,
    async (page) => {
      await press("pause")(page);
      await page.waitForSelector(".tos-told:not(:empty)");
    },
  ],
  "stop-asked": [TWO, press("stop")],
  paused: [`${TWO}&state=paused`],
  chaos: [`${TWO}&state=chaos`],
  diverging: [`${TWO}&state=diverging`],
  overfitting: [`${TWO}&state=overfitting`],
  finished: [`${TWO}&state=finished`],
  next: [`${TWO}&state=finished`, press("next")],
  stopped: [`${TWO}&state=stopped`],
  failed: [`${TWO}&state=failed`],
  early: [`${TWO}&state=early`],
  lost: [`${TWO}&state=lost`],
  log: [TWO, (page) => page.click('[data-tab="log"]')],
  work: [TWO, (page) => page.click('[data-tab="work"]')],
  theory: [TWO, (page) => page.click('[data-tab="theory"]')],
  settings: [TWO, (page) => page.click('[data-tab="settings"]')],
  enlarged: [
    TWO,
    async (page) => {
      await page.click(".tos-menu summary");
      await page.click(".tos-menu-list button");
    },
  ],
  error: [`${TWO}&state=failed`, press("details")],
  together: ["together=1&workers=4"],
  trouble: ["trouble=1&workers=4"],
  crowd: ["workers=64&executors=64&rate=10&seconds=10"],
};
/** Panes and crowds are as high as what they show. */
const ONE_HEIGHT = Object.keys(STATES).slice(0, 18);
/** Where a table of workers has all its columns. */
const WHOLE = ["1280", "1920"];
/** Pixels from the view's top: of the first curve, and of the view's end with two workers. */
const LIMITS = { 1280: [130, 520], 1920: [130, 570], 600: [140, 640], tab: [160, 640] };
const LOAD = "?theme=light&workers=64&executors=64&rate=10&seconds=10&plain=1&live=1";

const only = process.argv.slice(2);
const out = fileURLToPath(new URL("../screenshots", import.meta.url));
mkdirSync(out, { recursive: true });
const profile = mkdtempSync(join(tmpdir(), "tos-look-"));
const server = await serve();
const root = `http://127.0.0.1:${server.address().port}/`;
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"].concat([
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ]),
});
let problems = 0;
const complain = (text) => {
  problems += 1;
  console.error(text);
};
const open = async (query, [width, height], forced = false) => {
  const page = await browser.newPage();
  if (forced) await page.emulateMedia({ forcedColors: "active", colorScheme: "dark" });
  page.on("console", (message) => {
    if (message.type() === "error") complain(`${query}: ${message.text()}`);
  });
  page.on("pageerror", (error) => complain(`${query}: ${error.message}`));
  await page.setViewportSize({ width, height });
  await page.goto(root + query);
  await page.waitForSelector(".tos-charts:not([hidden]) .u-wrap, .tos-nothing:not([hidden])");
  return page;
};
const measure = (page) =>
  page.evaluate(() => {
    const view = document.querySelector(".tos-run").getBoundingClientRect();
    const place = document.querySelector(".tos-nothing:not([hidden])");
    const table = document.querySelector('[data-tos="workers"] .tos-scroll');
    const bar = document.querySelector(".tos-bar").getBoundingClientRect();
    const rest = document.querySelector(".tos-rest");
    const plot = (place ?? document.querySelector(".tos-plot")).getBoundingClientRect();
    return {
      cut: [...document.querySelectorAll(".tos-next-row code, .tos-noted > :last-child")]
        .filter((one) => one.scrollWidth > one.clientWidth && one.clientWidth > 0)
        .map((one) => one.textContent),
      wide: document.documentElement.scrollWidth - window.innerWidth,
      hidden: table.scrollWidth - table.clientWidth,
      gone: rest.textContent !== "" && rest.getBoundingClientRect().top > bar.bottom - 12,
      plot: Math.round(plot.top - view.top),
      height: Math.round(view.height),
    };
  });

for (const [size, box] of Object.entries(SIZES)) {
  const heights = {};
  for (const [name, [query, act]] of Object.entries(STATES)) {
    if (only.length > 0 && !only.includes(name)) continue;
    for (const theme of THEMES) {
      const page = await open(`?theme=${theme}&${query}`, box, theme === "forced");
      await act?.(page);
      await page.waitForTimeout(100);
      await page.screenshot({ path: join(out, `${name}-${size}-${theme}.png`), fullPage: true });
      const { cut, gone, wide, hidden, plot, height } = await measure(page);
      if (gone && ["running", "paused", "chaos", "overfitting"].includes(name))
        complain(`${name} at ${size}: the first line does not say how much time is left`);
      if (cut.length > 0) complain(`${name} at ${size}: cut: ${cut.join("; ")}`);
      if (wide > 0) complain(`${name} at ${size}: ${wide} px too wide`);
      if (hidden > 0 && WHOLE.includes(size))
        complain(`${name} at ${size}: the table of workers is ${hidden} px too wide`);
      // An error takes the lines that it needs from the charts.
      if (plot > LIMITS[size][0] && !["failed", "early", "error"].includes(name))
        complain(`${name} at ${size}: the first curve begins at ${plot} px`);
      if (ONE_HEIGHT.includes(name)) heights[height] = [...(heights[height] ?? []), name];
      await page.evaluate(() => window.localStorage.clear());
      await page.close();
    }
  }
  const found = Object.keys(heights).map(Number);
  if (found.length > 1) complain(`Heights at ${size}: ${JSON.stringify(heights)}`);
  if (Math.max(...found) > LIMITS[size][1]) complain(`At ${size} the view is ${found} px high`);
  console.log(`${size}: ${found} px high`);
}
if (only.length === 0) {
  const page = await open(LOAD, [1000, 1600]);
  const rate = await page.evaluate(() => window.tosDemo.frames(10));
  console.log(`${rate.toFixed(1)} frames/s at 64 executors x 10 milestones/s`);
}
await browser.close();
server.close();
rmSync(profile, { recursive: true, force: true });
process.exitCode = problems > 0 ? 1 : 0;
