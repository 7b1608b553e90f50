/** Where the views of a run are on the page. */

/** The attribute of what a view is in: the run's id. */
const SHOWS = "data-tos-shows";

/** Note that an element shows a run. */
export function mark(element: HTMLElement, run: string): void {
  element.setAttribute(SHOWS, run);
}

/** The elements that show a run. */
export function viewsOf(run: string, within: ParentNode = document): HTMLElement[] {
  const all = within.querySelectorAll<HTMLElement>(`[${SHOWS}]`);
  return [...all].filter((element) => element.getAttribute(SHOWS) === run);
}

/** Whether a person who looks at the page sees a view of the run. */
export function isSeen(run: string): boolean {
  return document.hasFocus() && viewsOf(run).some(isInSight);
}

function isInSight(element: HTMLElement): boolean {
  const { top, bottom, width } = element.getBoundingClientRect();
  return width > 0 && bottom > 0 && top < window.innerHeight;
}
