/** Builds what the Python package ships: the anywidget, and the plug-in for JupyterLab. */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const json = (relative) => JSON.parse(readFileSync(path(relative), "utf8"));

/** Bytes: of the anywidgets, of which each view carries one; and of the plug-in, beyond what is shared. */
const WIDGET_LIMIT = 200_000;
const LAB_LIMIT = 300_000;

const shared = {
  bundle: true,
  charset: "utf8",
  legalComments: "none",
  target: ["es2022", "chrome111", "firefox114", "safari16.4"],
};

async function buildWidget() {
  const licence = readFileSync(path("../node_modules/uplot/LICENSE"), "utf8").trim();
  const ours = `The live view of tos_notebook. BSD-3-Clause, Copyright (c) 2026, the tos_notebook authors.
Built from labextension/ by "npm run build"; do not edit.`;
  const banner = `/*!\n${ours}\n\nIt contains uPlot:\n\n${licence}\n*/`;
  const out = path("../../tos_notebook/widgets/static");
  const options = { ...shared, minify: true, banner: { js: banner, css: banner } };
  const script = { entryPoints: [path("../src/widget.ts")], format: "esm" };
  await esbuild.build({ ...options, ...script, outfile: `${out}/run_view.js` });
  const cluster = { entryPoints: [path("../src/cluster-widget.ts")], format: "esm" };
  // This one draws no chart.
  const own = { banner: { js: `/*!\n${ours}\n*/` }, outfile: `${out}/cluster_view.js` };
  await esbuild.build({ ...options, ...cluster, ...own });
  const style = { entryPoints: [path("../src/view/styles.css")] };
  await esbuild.build({ ...options, ...style, outfile: `${out}/run_view.css` });
  check("the anywidget", out, WIDGET_LIMIT);
}

/** esbuild makes one module of ours; the builder makes of that what JupyterLab loads. */
async function buildLab() {
  const lib = path("../lib");
  await esbuild.build({
    ...shared,
    entryPoints: [path("../src/lab/index.ts")],
    format: "esm",
    external: ["@jupyterlab/*", "@lumino/*", "uplot"],
    plugins: [notebooks],
    outfile: `${lib}/index.js`,
  });
  await esbuild.build({
    ...shared,
    // Else comments name the files that it was made from, wherever they are.
    minify: true,
    entryPoints: [path("../src/lab/style.css")],
    outfile: `${lib}/index.css`,
  });
  writeFileSync(`${lib}/style.js`, 'import "./index.css";\n');
  const folder = mkdtempSync(join(tmpdir(), "tos-build-"));
  try {
    writeFileSync(join(folder, "package.json"), JSON.stringify(oldestCore()));
    // The one with webpack: its successor needs a binary for each platform.
    const builder = path("../node_modules/@jupyterlab/builder/lib/build-labextension.js");
    const options = ["--core-path", folder, path("..")];
    execFileSync(process.execPath, [builder, ...options], {
      stdio: ["ignore", "ignore", "inherit"],
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
  nameByContent(path("../../tos_notebook/labextension"));
  check("the plug-in", path("../../tos_notebook/labextension/static"), LAB_LIMIT);
}

/** webpack's own hash of the entry depends on the folder that it was built in. */
function nameByContent(out) {
  const described = JSON.parse(readFileSync(`${out}/package.json`, "utf8"));
  const { _build } = described.jupyterlab;
  const content = readFileSync(`${out}/${_build.load}`);
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 20);
  const named = `static/remoteEntry.${hash}.js`;
  renameSync(`${out}/${_build.load}`, `${out}/${named}`);
  _build.load = named;
  writeFileSync(`${out}/package.json`, `${JSON.stringify(described, null, 2)}\n`);
}

/** What JupyterLab shares, in the oldest versions that package.json allows, not in today's. */
function oldestCore() {
  const core = json("../node_modules/@jupyterlab/core-meta/core.package.json");
  return { ...core, resolutions: { ...core.resolutions, ...json("../package.json").dependencies } };
}

/** What a cell says to those who test it. */
const FOR_TESTS = "# NBVAL_IGNORE_OUTPUT\n";

/**
 * The cells up to the exercises, and from the next heading on. The launcher makes a notebook in any
 * folder, and exercises import `tos_workshop`, which lies beside the notebooks of the course.
 */
function withoutExercises(cells) {
  const heading = ({ cell_type, source }) =>
    cell_type === "markdown" && source[0].startsWith("## ");
  const begin = cells.findIndex((cell) => heading(cell) && cell.source[0] === "## Exercises\n");
  const end = cells.findIndex((cell, index) => index > begin && heading(cell));
  const kept = cells.filter((_, index) => index < begin || index >= end);
  if (begin < 0 || end < 0 || JSON.stringify(kept).includes("tos_workshop")) {
    throw new Error("Expected all exercises between '## Exercises' and another heading.");
  }
  return kept;
}

/** A notebook as a module: its cells, without exercises and what they have put out. */
const notebooks = {
  name: "notebooks",
  setup(build) {
    build.onLoad({ filter: /\.ipynb$/ }, ({ path: file }) => {
      const notebook = JSON.parse(readFileSync(file, "utf8"));
      notebook.cells = withoutExercises(notebook.cells);
      for (const cell of notebook.cells) {
        if (cell.cell_type !== "code") continue;
        const source = cell.source.filter((line) => line !== FOR_TESTS);
        Object.assign(cell, { source, outputs: [], execution_count: null });
      }
      return { contents: JSON.stringify(notebook), loader: "json" };
    });
  },
};

function check(name, folder, limit) {
  const sizes = readdirSync(folder).map((file) => statSync(join(folder, file)).size);
  const total = sizes.reduce((a, b) => a + b, 0);
  console.log(`${total.toString().padStart(7)} B  ${name}`);
  if (total <= limit) return;
  console.error(`Expected at most ${limit} B, got ${total} B: leave something out.`);
  process.exitCode = 1;
}

await buildWidget();
await buildLab();
