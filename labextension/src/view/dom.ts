/** The little of a DOM library that the view needs. Text is always set as text, never as HTML. */

type Attributes = Record<string, string | number | boolean | undefined>;
type Child = Node | string;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  // Else it would send the form that it is in.
  if (tag === "button") element.setAttribute("type", "button");
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** Set text only where it differs: a write that changes nothing still costs layout. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

let used = 0;

/** An id that no other view on the page has. */
export function uniqueId(name: string): string {
  used += 1;
  return `tos-${name}-${used}-${Math.random().toString(36).slice(2, 8)}`;
}
