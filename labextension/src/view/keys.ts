/** Keys that a view takes for itself. */

/**
 * JupyterLab reads keys without Ctrl, Meta or Alt as commands of the notebook: `d d` on a button
 * would delete the cell.
 */
export function keepFromHost(event: KeyboardEvent): void {
  if (!(event.ctrlKey || event.metaKey || event.altKey)) event.stopPropagation();
}
