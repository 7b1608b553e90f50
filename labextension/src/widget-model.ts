/** What the anywidgets have in common: a model that streams, and one that takes commands. */

/** What we use of a widget's model; anywidget's and ipywidgets' both have it. */
export interface WidgetModel {
  get(name: string): unknown;
  on(event: string, callback: (...arguments_: never[]) => void): void;
  off(event: string, callback: (...arguments_: never[]) => void): void;
  send(content: unknown, callbacks?: unknown, buffers?: unknown): void;
  widget_manager?: { get_model(id: string): Promise<WidgetModel> };
}

const REFERENCE = "IPY_MODEL_";

/** The control channel of a stream. */
export async function controlOf(stream: WidgetModel): Promise<WidgetModel> {
  const reference = stream.get("control");
  const id = typeof reference === "string" ? reference.replace(REFERENCE, "") : "";
  const control = await stream.widget_manager?.get_model(id);
  if (!control) throw new Error(`Expected the model of the controls, got none for "${id}".`);
  return control;
}
