/** Colours for the canvases, read from the style sheet, and word when they change. */

export interface Theme {
  text: string;
  grid: string;
  font: string;
  training: string;
  validation: string;
  faint: string;
  wait: string;
  exchange: string;
  alarm: string;
  background: string;
  /** Of other runs. */
  others: string[];
  /** From up to date to stale. */
  staleness: string[];
}

export const STALENESS_STEPS = 5;
const OTHERS = 4;

const DARK = "(prefers-color-scheme: dark)";

const FORCED = "(forced-colors: active)";

/**
 * What the page says of itself (JupyterLab, VS Code, Colab), else what the system prefers.
 * Where the system forces its colours, the page's own do not show.
 */
export function isDark(): boolean {
  const { body, documentElement: html } = document;
  if (window.matchMedia(FORCED).matches) return window.matchMedia(DARK).matches;
  const lab = body.dataset.jpThemeLight;
  if (lab !== undefined) return lab === "false";
  if (body.classList.contains("vscode-high-contrast-light")) return false;
  if (body.matches(".vscode-dark, .vscode-high-contrast")) return true;
  if (body.classList.contains("vscode-light")) return false;
  const named = html.getAttribute("theme") ?? html.dataset.theme;
  if (named) return named === "dark";
  return window.matchMedia(DARK).matches;
}

export function readTheme(root: HTMLElement): Theme {
  root.dataset.theme = isDark() ? "dark" : "light";
  const style = getComputedStyle(root);
  const read = (name: string, fallback: string): string =>
    style.getPropertyValue(`--tos-${name}`).trim() || fallback;
  return {
    text: read("muted", "#555"),
    grid: read("grid", "#ddd"),
    font: `11px ${style.fontFamily || "sans-serif"}`,
    training: read("training", "#1f6fb4"),
    validation: read("validation", "#c2410c"),
    faint: read("faint", "#9bbfdd"),
    wait: read("wait", "#999"),
    exchange: read("exchange", "#666"),
    alarm: read("alarm", "#b3261e"),
    background: read("background", "#fff"),
    others: Array.from({ length: OTHERS }, (_, i) => read(`other-${i}`, "#777")),
    staleness: Array.from({ length: STALENESS_STEPS }, (_, i) => read(`stale-${i}`, "#888")),
  };
}

/** Call back when JupyterLab, VS Code or the system changes its colours. */
export function watchTheme(changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  const attributes = ["class", "data-jp-theme-light", "data-jp-theme-name", "data-theme", "theme"];
  for (const target of [document.documentElement, document.body]) {
    observer.observe(target, { attributes: true, attributeFilter: attributes });
  }
  const queries = [DARK, FORCED].map((query) => window.matchMedia(query));
  for (const query of queries) query.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    for (const query of queries) query.removeEventListener("change", changed);
  };
}
