/** Bundles src/view.ts and its styles into the Python package; says how large they are. */

import { readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const LIMIT = 150_000;

const licence = readFileSync(path("../node_modules/uplot/LICENSE"), "utf8").trim();
const banner = `/*!
The live view of tos_notebook. BSD-3-Clause, Copyright (c) 2026, the tos_notebook authors.
Built from labextension/ by "npm run build"; do not edit.

It contains uPlot:

${licence}
*/`;

const shared = {
  bundle: true,
  minify: true,
  charset: "utf8",
  legalComments: "none",
  target: ["es2022", "chrome111", "firefox114", "safari16.4"],
  banner: { js: banner, css: banner },
};
const out = path("../../tos_notebook/widgets/static");
const entries = [
  { entryPoints: [path("../src/view.ts")], format: "esm", outfile: `${out}/run_view.js` },
  { entryPoints: [path("../src/styles.css")], outfile: `${out}/run_view.css` },
];
let total = 0;
for (const entry of entries) {
  await esbuild.build({ ...shared, ...entry });
  const size = statSync(entry.outfile).size;
  total += size;
  console.log(`${size.toString().padStart(7)} B  ${entry.outfile.split("/").pop()}`);
}
if (total > LIMIT) {
  console.error(`Expected at most ${LIMIT} B, got ${total} B: leave something out.`);
  process.exit(1);
}
