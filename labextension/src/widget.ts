/** The live view as an anywidget, for every front end that shows ipywidgets. */

import type { Channel, Listener } from "./view/channel";
import type { StreamMessage } from "./view/model";
import type { Answer } from "./view/requests";
import { RunView } from "./view/run-view";
import { controlOf, type WidgetModel } from "./widget-model";

/** Two widget models: a stream to read, and a control channel to write to and be answered on. */
class WidgetChannel implements Channel {
  private readonly view = Math.random().toString(36).slice(2, 12);
  private control: WidgetModel | null = null;
  private listener: Listener | null = null;
  private closed = false;

  constructor(private readonly stream: WidgetModel) {}

  async open(listener: Listener): Promise<void> {
    this.listener = listener;
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

  command(id: number, command: string, arguments_: Record<string, unknown>): void {
    this.control?.send({ type: "command", id, command, arguments: arguments_ });
  }

  close(): void {
    this.closed = true;
    this.stream.off("msg:custom", this.onMessage);
    this.control?.off("msg:custom", this.onAnswer);
  }

  private readonly onMessage = (content: StreamMessage, buffers: DataView[]): void => {
    this.listener?.message(content, buffers);
  };

  private readonly onAnswer = (content: { type?: string; id?: number } & Partial<Answer>): void => {
    if (content.type !== "answer" || content.id === undefined) return;
    const { ok, text, when } = content;
    this.listener?.answer(content.id, { ok: ok === true, text: text ?? "", when });
  };
}

function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  const view = new RunView(new WidgetChannel(model));
  el.append(view.element);
  view.start();
  return view.destroy;
}

export default { render };
