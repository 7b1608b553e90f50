/** What browsers have and jsdom has not. */

import { vi } from "vitest";

// Lumino subclasses it where a module that drags and drops is loaded.
vi.stubGlobal("DragEvent", class extends MouseEvent {});
