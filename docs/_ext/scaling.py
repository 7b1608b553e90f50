"""The pictures of how pushes a second grow with workers: measured, and simulated.

`python -m docs._ext.scaling` simulates, and writes docs/_ext/scaling.json and docs/scaling-*.svg.
What was measured is in the newest file of benchmarks/results that has the program `workers`.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from docs._ext.exchanges import FOLDER, WIDTH

ROOT = FOLDER.parent
SIMULATED = Path(__file__).with_name("scaling.json")

SIZES = (
    ("31 kB", 31_400, 0.1),
    ("4 MB", 4_000_000, 1.0),
    ("100 MB", 100_000_000, 10.0),
    ("1 GB", 1_000_000_000, 60.0),
)
"""Of the parameters, and seconds that a worker computes between two exchanges."""

NAMES = {
    "ps": "driver",
    "ps:shards=2": "2 shards",
    "ps:shards=4": "4 shards",
    "ps:shards=16": "16 shards",
    "allreduce": "all-reduce",
}

STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #52606d; }
    .head { font-weight: 600; font-size: 14px; fill: #1f2933; }
    .name { fill: #1f2933; }
    .page { fill: #ffffff; }
    .grid { stroke: #d9e2ec; stroke-width: 1; fill: none; }
    .line { stroke-width: 2; fill: none; }
    .k0 { stroke: #2563eb; } .k1 { stroke: #b45309; } .k2 { stroke: #0f766e; }
    .k3 { stroke: #7c3aed; } .k4 { stroke: #be185d; }
    .mark { fill: #ffffff; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #b8c4ce; }
      .head, .name { fill: #e4e7eb; }
      .page { fill: #12181f; }
      .grid { stroke: #323f4b; }
      .k0 { stroke: #60a5fa; } .k1 { stroke: #f0b429; } .k2 { stroke: #2dd4bf; }
      .k3 { stroke: #a78bfa; } .k4 { stroke: #f472b6; }
      .mark { fill: #12181f; }
    }
"""

WIDE, HIGH = 240, 190
"""Of a chart's plane."""

FEWEST = 4
"""Workers, where charts begin."""

DASHES = ("", "7 4", "2 3", "10 3 2 3", "1 4")
"""Of the lines, for those who do not see colors."""


class Series(NamedTuple):
    """One line of a chart, with what was measured of it."""

    name: str
    line: Sequence[tuple[float, float]]
    marks: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """Pushes a second over workers, both logarithmic.

    Parameters
    ----------
    title : str
    series : sequence of Series
    """

    title: str
    series: Sequence[Series]

    def draw(self, left: float, top: float) -> Iterator[str]:
        """Yield elements of SVG."""
        yield f'<text class="head" x="{left:g}" y="{top - 14:g}">{html.escape(self.title)}</text>'
        points = [point for series in self.series for point in (*series.line, *series.marks)]
        plane = _plane(points, left, top)
        yield from plane.axes()
        ends = []
        for number, series in enumerate(self.series):
            places = [plane.at(*point) for point in series.line]
            path = "L".join(f"{x:.0f} {y:.0f}" for x, y in places)
            dash = f' stroke-dasharray="{DASHES[number]}"' if DASHES[number] else ""
            yield f'<path class="line k{number}"{dash} d="M{path}"/>'
            for point in series.marks:
                yield _mark(number, *plane.at(*point))
            ends.append((places[-1][1], series.name))
        yield from _names(left + WIDE + 8, ends)


class _Plane(NamedTuple):
    """Where numbers lie in a chart."""

    left: float
    top: float
    most: float
    """Workers."""
    low: int
    high: int
    """Powers of ten of the rates."""

    def at(self, workers: float, rate: float) -> tuple[float, float]:
        right = math.log(workers / FEWEST) / math.log(self.most / FEWEST)
        up = (math.log10(rate) - self.low) / (self.high - self.low)
        return self.left + WIDE * right, self.top + HIGH * (1 - up)

    def axes(self) -> Iterator[str]:
        for power in range(self.low, self.high + 1):
            _, y = self.at(FEWEST, 10.0**power)
            yield f'<path class="grid" d="M{self.left:g} {y:.0f}h{WIDE}"/>'
            yield _text(self.left - 6, y + 4, f"{10.0**power:,g}", "end")
        bottom = self.top + HIGH
        for workers in (4, 16, 64, 256, 1024, 10_000):
            if workers <= self.most:
                x, _ = self.at(workers, 1.0)
                yield _text(x, bottom + 17, f"{workers:,}", "middle")
        yield _text(self.left + WIDE / 2, bottom + 34, "workers", "middle")


def _plane(points: Sequence[tuple[float, float]], left: float, top: float) -> _Plane:
    rates = [math.log10(rate) for _, rate in points]
    most = max(workers for workers, _ in points)
    return _Plane(left, top, most, math.floor(min(rates)), math.ceil(max(rates)))


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'


def _mark(number: int, x: float, y: float) -> str:
    if number % 2:
        corner = f'x="{x - 4:.0f}" y="{y - 4:.0f}"'
        return f'<rect class="mark k{number}" {corner} width="8" height="8"/>'
    return f'<circle class="mark k{number}" cx="{x:.0f}" cy="{y:.0f}" r="4.5"/>'


def _names(left: float, ends: Sequence[tuple[float, str]]) -> Iterator[str]:
    """Yield the names of lines where they end, none over another."""
    lowest = -math.inf
    for y, name in sorted(ends):
        lowest = max(y, lowest + 15)
        yield f'<text class="name" x="{left:g}" y="{lowest + 4:.0f}">{html.escape(name)}</text>'


@dataclass(frozen=True, slots=True)
class Picture:
    """Some charts, two in a row.

    Parameters
    ----------
    name : str
        Of its file, after ``scaling-``.
    title, words : str
        Of what it shows, for those who do not see it.
    charts : sequence of Chart
    """

    name: str
    title: str
    words: str
    charts: Sequence[Chart]

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"scaling-{self.name}.svg"

    def svg(self) -> str:
        """Return it as SVG, for light and dark pages."""
        height = 20 + 270 * -(-len(self.charts) // 2)
        size = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title desc"'
        parts = [
            part
            for number, chart in enumerate(self.charts)
            for part in chart.draw(62 + 372 * (number % 2), 44 + 270 * (number // 2))
        ]
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f'  <title id="title">{html.escape(self.title)}</title>',
            f'  <desc id="desc">{html.escape(self.words)}</desc>',
            f"  <style>{STYLE}  </style>",
            f'  <rect class="page" width="{WIDTH}" height="{height}" rx="10"/>',
            *(f"  {part}" for part in parts),
            "</svg>",
        ]
        return "\n".join([*lines, ""])


def simulate(sizes: Iterable[tuple[str, int, float]] = SIZES, **options: Any) -> dict[str, Any]:
    """Return the curves of each size: of each way workers, pushes a second, and where it bends."""
    from tos_notebook.theory import scaling

    found = {}
    for size, nbytes, compute in sizes:
        curves = scaling(nbytes, batch_seconds=compute, sync_interval=1, **options).curves
        found[size] = {
            curve.way: {
                "points": [[p.workers, float(f"{p.rate:.4g}"), p.limit] for p in curve.points],
                "saturated": round(curve.saturated_at) if curve.saturated_at < math.inf else None,
            }
            for curve in curves
        }
    return found


def simulated() -> dict[str, Any]:
    """Return what `main` has simulated."""
    found: dict[str, Any] = json.loads(SIMULATED.read_text(encoding="utf-8"))
    return found


def measured() -> tuple[str, dict[str, dict[str, Series]]]:
    """Return the file of results, and of each size and each way what was measured."""
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.txt"), reverse=True):
        if found := parse(path.read_text(encoding="utf-8")):
            return path.name, found
    raise FileNotFoundError("No file of benchmarks/results has the program workers.")


def parse(text: str) -> dict[str, dict[str, Series]]:
    """Return of each size and each way what the program `workers` has printed."""
    rows = re.findall(
        r"^(.*), (.*): (\d+) workers +([\d.]+) 1/s.*\n +simulated / measured +([\d.]+) 1/s",
        text,
        re.MULTILINE,
    )
    found: dict[str, dict[str, Series]] = {}
    for way, size, workers, rate, predicted in rows:
        series = found.setdefault(size, {}).setdefault(way, Series(way, [], []))
        series.line.append((int(workers), float(predicted)))  # type: ignore[attr-defined]
        series.marks.append((int(workers), float(rate)))  # type: ignore[attr-defined]
    return found


def saturations() -> list[list[str]]:
    """Return a row for each size: its name, and the workers at which each way is saturated."""
    return [
        [size, *(_workers(curve["saturated"]) for curve in ways.values())]
        for size, ways in simulated().items()
    ]


def _workers(count: int | None) -> str:
    return "beyond 10,000" if count is None else f"{float(f'{count:.2g}'):,.0f}"


def pictures() -> tuple[Picture, ...]:
    """Return both."""
    _, found = measured()
    charts = [
        Chart(f"{size}: pushes a second", list(series.values())) for size, series in found.items()
    ]
    curves = {
        size: [
            Series(NAMES[way], [(n, rate) for n, rate, _ in curve["points"]])
            for way, curve in ways.items()
        ]
        for size, ways in simulated().items()
    }
    return (
        Picture(
            "measured",
            "Measured and simulated pushes a second on one machine",
            "Pushes a second over workers, for parameters of 31 kB and of 4 MB. Marks are "
            "measured, lines simulated. With 31 kB they grow in proportion, then stay level: all "
            "processes of the server share one core.",
            charts,
        ),
        Picture(
            "simulated",
            "Simulated pushes a second of a cluster",
            "Pushes a second over workers from 4 to 10,000, for parameters of 31 kB, 4 MB, 100 MB "
            "and 1 GB, with a line each for the driver, 2, 4 and 16 shards, and all-reduce. Each "
            "server's line becomes level, later with more shards; that of all-reduce rises on.",
            [Chart(f"{size}: pushes a second", series) for size, series in curves.items()],
        ),
    )


def main() -> None:
    """Simulate, and write all of it."""
    SIMULATED.write_text(json.dumps(simulate(), indent=1) + "\n", encoding="utf-8")
    for picture in pictures():
        picture.path.write_text(picture.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
