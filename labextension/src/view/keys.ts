/** Keys that a view takes for itself. */

/** What has a use for arrows: values, and what is scrolled by itself. */
const MOVES = 'input:not([type="checkbox"]), select, .tos-scroll, pre';

/**
 * JupyterLab reads keys without Ctrl, Meta or Alt as commands of the notebook: `d d` on a button
 * would delete the cell. The browser scrolls the notebook by arrows that nothing else uses.
 */
export function keepFromHost(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  event.stopPropagation();
  const idle = event.key.startsWith("Arrow") && !(event.target as Element).matches(MOVES);
  if (idle) event.preventDefault();
}
