/** A person's choices that hold for every view on this browser, also tomorrow. */

const PREFIX = "tos-notebook:view:";

export function preferred(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    // The page may store nothing.
    return null;
  }
}

export function prefer(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Then it holds for this view alone.
  }
}
