/** Where the browser reaches Spark's own pages: by the Jupyter server, if it can pass them on. */

import { URLExt } from "@jupyterlab/coreutils";
import { ServerConnection } from "@jupyterlab/services";

import { h, setAttribute } from "../view/dom";

/** From the address on the kernel's machine to one that a link can have. Never rejects. */
export type SparkUi = (url: string) => Promise<string>;

export function sparkUi(settings: ServerConnection.ISettings): SparkUi {
  let proxies: Promise<boolean> | null = null;
  return async (url) => {
    // jupyter-server-proxy speaks plain HTTP with the ports of its own machine.
    const port = /^http:\/\/[^/]+:(\d+)/.exec(url)?.[1];
    if (port === undefined) return url;
    proxies ??= hasProxy(settings);
    // Spark's redirect from / to /jobs/ forgets the proxy's prefix; its pages do not.
    const page = URLExt.join(settings.baseUrl, "proxy", port, "jobs/");
    return (await proxies) ? page : url;
  };
}

async function hasProxy(settings: ServerConnection.ISettings): Promise<boolean> {
  const url = URLExt.join(settings.baseUrl, "server-proxy/servers-info");
  try {
    return (await ServerConnection.makeRequest(url, {}, settings)).status === 200;
  } catch {
    return false;
  }
}

/** A link to Spark's pages; hidden until it is known where it leads. */
export class SparkLink {
  readonly element: HTMLAnchorElement;
  private ui: string | null = null;

  constructor(
    text: string,
    private readonly sparkUi: SparkUi,
  ) {
    this.element = h("a", { target: "_blank", rel: "noopener", hidden: true }, text);
  }

  point(ui: string | null): void {
    if (ui === this.ui) return;
    this.ui = ui;
    this.element.hidden = true;
    if (ui === null) return;
    void this.sparkUi(ui).then((address) => {
      // It is the kernel's word: no script may come of it.
      if (ui !== this.ui || !/^https?:/.test(address)) return;
      setAttribute(this.element, "href", address);
      this.element.hidden = false;
    });
  }
}
