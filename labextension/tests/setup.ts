/** What browsers have and jsdom has not. */

import { vi } from "vitest";

// Lumino subclasses it where a module that drags and drops is loaded.
vi.stubGlobal("DragEvent", class extends MouseEvent {});

// Nothing is out of sight.
Element.prototype.scrollIntoView = () => {};

// Pages are light, and their colors not forced.
Object.assign(window, {
  matchMedia: () => Object.assign(new EventTarget(), { matches: false }),
});

// Files share a process: one may have put something else in a module's place.
vi.resetModules();
