/** The live view of a TensorFlow cluster as an anywidget. */

import type { ClusterChannel, ClusterMessage } from "./view/cluster";
import { ClusterView } from "./view/cluster-view";
import { controlOf, type WidgetModel } from "./widget-model";

type Told = Parameters<ClusterChannel["open"]>[0];
type Refused = Parameters<ClusterChannel["open"]>[1];

class WidgetChannel implements ClusterChannel {
  private readonly view = Math.random().toString(36).slice(2, 12);
  private control: WidgetModel | null = null;
  private told: Told | null = null;
  private refused: Refused | null = null;
  private closed = false;

  constructor(private readonly stream: WidgetModel) {}

  async open(told: Told, refused: Refused): Promise<void> {
    this.told = told;
    this.refused = refused;
    this.stream.on("msg:custom", this.onMessage);
    const control = await controlOf(this.stream);
    // The cell may have been cleared in the meantime.
    if (this.closed) return;
    this.control = control;
    control.on("msg:custom", this.onAnswer);
  }

  hello(): void {
    this.control?.send({ type: "hello", view: this.view });
  }

  stop(): void {
    this.control?.send({ type: "command", id: 1, command: "stop", arguments: {} });
  }

  close(): void {
    this.closed = true;
    this.stream.off("msg:custom", this.onMessage);
    this.control?.off("msg:custom", this.onAnswer);
  }

  private readonly onMessage = (content: ClusterMessage): void => {
    this.told?.(content);
  };

  private readonly onAnswer = (content: { ok?: boolean; text?: string }): void => {
    if (content.ok === false) this.refused?.(content.text ?? "");
  };
}

function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  const view = new ClusterView(new WidgetChannel(model));
  el.append(view.element);
  view.start();
  return view.destroy;
}

export default { render };
