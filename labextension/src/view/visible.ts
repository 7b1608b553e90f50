/** Draw at most once a frame, and only what the user can see. */

export interface Drawing {
  request: () => void;
  destroy: () => void;
}

/** Calls `draw` after `request`; while the element is hidden, once when it comes back. */
export function drawWhenVisible(element: Element, draw: () => void): Drawing {
  let wanted = false;
  let frame = 0;
  let onScreen = true;
  let width = -1;

  const schedule = (): void => {
    if (!wanted || frame !== 0 || !onScreen || document.hidden) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      wanted = false;
      draw();
    });
  };
  const request = (): void => {
    wanted = true;
    schedule();
  };
  const sight = new IntersectionObserver((entries) => {
    onScreen = entries.at(-1)?.isIntersecting ?? true;
    schedule();
  });
  // Drawing changes the height; only a new width asks for another drawing.
  const size = new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    request();
  });
  sight.observe(element);
  size.observe(element);
  document.addEventListener("visibilitychange", schedule);
  return {
    request,
    destroy: () => {
      cancelAnimationFrame(frame);
      wanted = false;
      sight.disconnect();
      size.disconnect();
      document.removeEventListener("visibilitychange", schedule);
    },
  };
}
