/** A falling loss and a spark. */

import { LabIcon } from "@jupyterlab/ui-components";

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M2 3h4v18H2zM8 11h4v10H8zM14 16h4v5h-4zM20 18h3v3h-3z"/>
    <path d="M16 1l1.6 4.4L22 7l-4.4 1.6L16 13l-1.6-4.4L10 7l4.4-1.6z"/>
  </g>
</svg>`;

export const tosIcon = new LabIcon({ name: "tos-notebook:icon", svgstr: SVG });
