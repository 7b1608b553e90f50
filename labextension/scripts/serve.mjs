/** Serves the demo page and the built view on this machine, under a strict security policy. */

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const STATIC = "../../tos_notebook/widgets/static";
const FILES = {
  "/": ["text/html", "../demo/index.html"],
  "/page.css": ["text/css", "../demo/page.css"],
  "/run_view.css": ["text/css", `${STATIC}/run_view.css`],
  "/run_view.js": ["text/javascript", `${STATIC}/run_view.js`],
};
// No eval, nothing from elsewhere; only the canvas's own styles are inline.
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:";

export async function serve(port = 0) {
  const page = await esbuild.build({
    entryPoints: [path("../demo/page.ts")],
    bundle: true,
    format: "esm",
    write: false,
  });
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const [type, file] = FILES[pathname] ?? ["text/javascript", null];
    if (file === null && pathname !== "/page.js") return response.writeHead(404).end();
    response.writeHead(200, { "content-type": type, "content-security-policy": POLICY });
    return response.end(file === null ? page.outputFiles[0].text : readFileSync(path(file)));
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return server;
}
