/** A view that appears below the window's edge is scrolled into sight, once. */

/** Pixels from which on a view is drawn and not only announced. */
const DRAWN = 300;

/** Whether a person has just run the cell, and does nothing else: it or the next one is active. */
function isWatched(cell: Element): boolean {
  const notebook = cell.closest(".jp-Notebook.jp-mod-commandMode");
  const active = notebook?.querySelector(".jp-Cell.jp-mod-active") ?? null;
  return active !== null && (active === cell || active === cell.nextElementSibling);
}

/**
 * Scroll as far as a view needs once it is drawn, if the person who ran its cell still looks there.
 * Returns what forgets it.
 */
export function intoSight(view: HTMLElement): () => void {
  const drawn = new ResizeObserver(() => {
    const { top, bottom, height } = view.getBoundingClientRect();
    if (height < DRAWN) return;
    drawn.disconnect();
    const cell = view.closest(".jp-Cell");
    const window = view.closest(".jp-WindowedPanel-outer")?.getBoundingClientRect();
    if (!cell || !window || !isWatched(cell)) return;
    // Who has scrolled elsewhere stays there.
    const near = cell.getBoundingClientRect().top < window.bottom && top > window.top;
    if (near && bottom > window.bottom) view.scrollIntoView({ block: "nearest" });
  });
  drawn.observe(view);
  return () => {
    drawn.disconnect();
  };
}
