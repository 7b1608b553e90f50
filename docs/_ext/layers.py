"""The parts of the package by layers, from the sources: for the diagram and the map of the code.

`python -m docs._ext.layers` writes the diagram, docs/layers.svg.
"""

from __future__ import annotations

import ast
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.structure import (
    GROUPS,
    ORDER,
    ROOT,
    Module,
    imports,
    package_modules,
    package_of,
    within,
)

DIAGRAM = Path(__file__).parents[1] / "layers.svg"

LAYER_NAMES = dict(enumerate(GROUPS))

HEAVY = {
    "tensorflow": "TensorFlow",
    "keras": "TensorFlow",
    "pyspark": "Spark",
    "py4j": "Spark",
    "findspark": "Spark",
    "pandas": "pandas",
    "plotly": "Plotly",
    "IPython": "Jupyter",
    "ipywidgets": "Jupyter",
    "anywidget": "Jupyter",
    "tensorboard": "TensorBoard",
    "mlflow": "MLflow",
    "cryptography": "cryptography",
}
"""What is named in a part that imports it."""

SHORT = {"TensorFlow": "TF", "TensorBoard": "TB", "cryptography": "crypto"}
"""In the diagram, where room is short."""


@dataclass(frozen=True, slots=True)
class Part:
    """An entry of `tools.structure.ORDER`: a package, or a module of the root.

    Parameters
    ----------
    name : str
        Within the package.
    layer : int
    summary : str
        The first line of its docstring.
    heavy : tuple of str
        Large packages that it imports, at the top of a module or in a function.
    uses : tuple of str
        Other parts that it imports.
    """

    name: str
    layer: int
    summary: str
    heavy: tuple[str, ...]
    uses: tuple[str, ...]


@cache
def parts() -> tuple[Part, ...]:
    """Return the parts, from the highest layer down."""
    modules = package_modules()
    found = [
        _part(name, layer, modules)
        for layer, group in enumerate(GROUPS.values())
        for name in group
        if not name.startswith("_")
    ]
    return tuple(sorted(found, key=lambda part: (-part.layer, ORDER.index(part.name))))


def _part(name: str, layer: int, modules: dict[str, Module]) -> Part:
    own = [module for module in modules.values() if package_of(module.name) == name]
    targets = {found.target for module in own for found in imports(module, modules)}
    heavy = {HEAVY[top] for top in (t.split(".")[0] for t in targets) if top in HEAVY}
    uses = {package_of(target) for target in targets if within(target, ROOT)}
    uses = {use for use in uses - {name, ""} if not use.startswith("_")}
    summary = ast.get_docstring(ast.parse(modules[f"{ROOT}.{name}"].source)) or ""
    return Part(name, layer, summary.partition("\n")[0], tuple(sorted(heavy)), tuple(sorted(uses)))


WIDTH, MARGIN, GAP, HEIGHT, HEAD = 880, 20, 8, 40, 34
RIGHT = 96
"""What is left free for the arrows."""

STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #1f2933; text-anchor: middle; }
    .head { font-weight: 600; font-size: 14px; text-anchor: start; }
    .small { font-size: 10.5px; fill: #52606d; }
    .page { fill: #ffffff; }
    .band { fill: #f0f4f8; stroke: #829ab1; }
    .part { fill: #ffffff; stroke: #829ab1; }
    .heavy { fill: #fef3c7; stroke: #b45309; }
    .down { stroke: #2563eb; stroke-width: 1.5; fill: none; }
    .tip { fill: #2563eb; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e4e7eb; }
      .small { fill: #b8c4ce; }
      .page { fill: #12181f; }
      .band { fill: #1f2a36; }
      .part { fill: #12181f; }
      .heavy { fill: #45340f; stroke: #f0b429; }
      .down { stroke: #60a5fa; }
      .tip { fill: #60a5fa; }
    }
"""


def diagram() -> str:
    """Return the diagram as SVG: layers, their parts, and an arrow where one imports another."""
    all_parts = parts()
    bands, boxes, top = {}, [], MARGIN
    for layer in sorted(LAYER_NAMES, reverse=True):
        own = [part for part in all_parts if part.layer == layer]
        drawn, bottom = _band(layer, own, top)
        bands[layer] = (top, bottom)
        boxes += drawn
        top = bottom + 2 * GAP
    height = top - 2 * GAP + MARGIN
    arrows = _arrows(all_parts, bands)
    return "\n".join([*_opening(height, all_parts), *boxes, *arrows, "</svg>", ""])


def alternative(all_parts: Iterable[Part]) -> str:
    """Return the diagram in words."""
    known = list(all_parts)
    by_layer = [
        f"Layer {layer}, {name}: " + ", ".join(part.name for part in known if part.layer == layer)
        for layer, name in sorted(LAYER_NAMES.items(), reverse=True)
    ]
    return "Imports go down only. " + ". ".join(by_layer) + "."


def _opening(height: float, all_parts: Iterable[Part]) -> list[str]:
    size = f'viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="title desc"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        '  <title id="title">The parts of the package, by layers</title>',
        f'  <desc id="desc">{html.escape(alternative(all_parts))}</desc>',
        f"  <style>{STYLE}  </style>",
        '  <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
        f'  <rect class="page" width="{WIDTH}" height="{height:g}" rx="10"/>',
    ]


def _band(layer: int, own: list[Part], top: float) -> tuple[list[str], float]:
    """Draw a layer from `top` on; return what was drawn, and where it ends."""
    drawn: list[str] = []
    left, y, end = MARGIN + GAP, top + HEAD, WIDTH - RIGHT - GAP
    for part in own:
        wide = _width(part)
        if left + wide > end:
            left, y = MARGIN + GAP, y + HEIGHT + GAP
        drawn += _box(part, left, y, wide)
        left += wide + GAP
    bottom = y + HEIGHT + GAP
    return [
        f'  <rect class="band" x="{MARGIN}" y="{top:g}" width="{WIDTH - RIGHT - MARGIN}" '
        f'height="{bottom - top:g}" rx="8"/>',
        f'  <text class="head" x="{MARGIN + 2 * GAP}" y="{top + 22:g}">'
        f"{layer} · {LAYER_NAMES[layer]}</text>",
        *drawn,
    ], bottom


def _short(part: Part) -> str:
    return " · ".join(SHORT.get(name, name) for name in part.heavy)


def _width(part: Part) -> float:
    return round(max(len(part.name) * 7.6, len(_short(part)) * 6) + 18)


def _box(part: Part, left: float, y: float, wide: float) -> list[str]:
    kind = "heavy" if part.heavy else "part"
    middle = left + wide / 2
    name = f'    <text x="{middle:g}" y="{y + (17 if part.heavy else 25):g}">{part.name}</text>'
    below = f'    <text class="small" x="{middle:g}" y="{y + 32:g}">{_short(part)}</text>'
    return [
        f"  <g><title>{html.escape(part.summary)}</title>",
        f'    <rect class="{kind}" x="{left:g}" y="{y:g}" width="{wide:g}" height="{HEIGHT}" '
        'rx="5"/>',
        *([name, below] if part.heavy else [name]),
        "  </g>",
    ]


def _arrows(all_parts: Sequence[Part], bands: dict[int, tuple[float, float]]) -> list[str]:
    """Draw an arrow from each layer to those that its parts import."""
    layers = {part.name: part.layer for part in all_parts}
    pairs = {(part.layer, layers[use]) for part in all_parts for use in part.uses}
    drawn, x = [], WIDTH - RIGHT
    for high, low in sorted(pairs, reverse=True):
        if high == low:
            continue
        far = high - low
        begin, end = sum(bands[high]) / 2 + 5 * (far - 1), sum(bands[low]) / 2 - 5 * (far - 1)
        reach = x + 16 + 18 * far
        drawn.append(
            f'  <path class="down" marker-end="url(#tip)" d="M{x} {begin:g}'
            f'C{reach} {begin:g} {reach} {end:g} {x + 2} {end:g}"/>'
        )
    return drawn


if __name__ == "__main__":
    DIAGRAM.write_text(diagram(), encoding="utf-8")
