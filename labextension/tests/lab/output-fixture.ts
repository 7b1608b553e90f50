/** What an output of a run is drawn from, and what JupyterLab would draw of what was saved of it. */

import type { IRenderMime } from "@jupyterlab/rendermime";
import { Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";
import { vi } from "vitest";

import { RUN_MIME } from "../../src/lab/protocol";

export const WIDGET_MIME = "application/vnd.jupyter.widget-view+json";

export interface Model {
  data: Record<string, unknown>;
  trusted: boolean;
  metadata: object;
}

/** Stands in for JupyterLab's own, which is what it was made of. */
export const FakeMimeModel = vi.fn(function (this: Model, model: Model) {
  Object.assign(this, model);
});

/** Shows what it was given as text, once it is let. */
export class Saved extends Widget {
  static readonly all: Saved[] = [];
  static wait = Promise.resolve();

  constructor() {
    super();
    Saved.all.push(this);
  }

  async renderModel({ data }: Model): Promise<void> {
    await Saved.wait;
    this.node.textContent = Object.keys(data).join(" ");
  }
}

export const rendermime = {
  preferredMimeType: vi.fn<(data: object, safe: string) => string | undefined>(
    (data) => Object.keys(data)[0],
  ),
  createRenderer: () => new Saved(),
};

export const current = { updateSeconds: 0.2, points: 1000, axis: "epoch" };
export const settings = { current, changed: new Signal<object, object>({}) };

/** What the notebook holds of a run. */
export function shown(run: string, trusted = true): IRenderMime.IMimeModel {
  const data = { [RUN_MIME]: { run, number: 3 }, [WIDGET_MIME]: {}, "text/html": "a picture" };
  return { data, metadata: {}, trusted } as never;
}
