/** Takes screenshots of the built view in chromium, and counts its frames under full load. */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

import { serve } from "./serve.mjs";

const SHOTS = {
  light: ["?theme=light", 1000],
  dark: ["?theme=dark", 1000],
  together: ["?theme=light&together=1", 1000],
  "together-dark": ["?theme=dark&together=1", 1000],
  narrow: ["?theme=light", 400],
  failed: ["?theme=light&state=failed", 1000],
  "failed-dark-narrow": ["?theme=dark&state=failed", 400],
  crowd: ["?theme=light&workers=64&executors=64&rate=10&seconds=10", 1000],
};
const LOAD = "?theme=light&workers=64&executors=64&rate=10&seconds=10&plain=1&live=1";

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
const open = async (query, width) => {
  const page = await browser.newPage();
  const complain = (text) => {
    problems += 1;
    console.error(`${query}: ${text}`);
  };
  page.on("console", (message) => {
    if (message.type() === "error") complain(message.text());
  });
  page.on("pageerror", (error) => complain(error.message));
  await page.setViewportSize({ width, height: 900 });
  await page.goto(root + query);
  await page.waitForSelector(".tos-run .u-wrap");
  return page;
};

for (const [name, [query, width]] of Object.entries(SHOTS)) {
  const page = await open(query, width);
  await page.screenshot({ path: join(out, `${name}.png`), fullPage: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > width) console.error(`${name}: ${wide} px wide in a window of ${width} px`);
  await page.close();
}
const page = await open(LOAD, 1000);
await page.setViewportSize({ width: 1000, height: 1600 });
const rate = await page.evaluate(() => window.tosDemo.frames(10));
console.log(`${rate.toFixed(1)} frames/s at 64 executors x 10 milestones/s`);
await browser.close();
server.close();
rmSync(profile, { recursive: true, force: true });
process.exitCode = problems > 0 ? 1 : 0;
