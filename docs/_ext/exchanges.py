"""The pictures of who exchanges what with whom, by strategy.

`python -m docs._ext.exchanges` writes them, docs/exchange-*.svg.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tos_notebook.reduction.schedules import Schedule, direct, halving, ring

FOLDER = Path(__file__).parents[1]

WIDTH, WIDE, HIGH = 760, 150, 44
"""Of a picture, and of a worker's box."""

STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #1f2933; text-anchor: middle; }
    .head { font-weight: 600; font-size: 14px; }
    .small { font-size: 12px; fill: #52606d; }
    .page { fill: #ffffff; }
    .box { fill: #f0f4f8; stroke: #829ab1; }
    .core { fill: #dbeafe; stroke: #2563eb; }
    .wire { stroke: #2563eb; stroke-width: 2; fill: none; }
    .count { stroke: #829ab1; stroke-width: 1.5; stroke-dasharray: 5 4; fill: none; }
    .tip { fill: #2563eb; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e4e7eb; }
      .small { fill: #b8c4ce; }
      .page { fill: #12181f; }
      .box { fill: #1f2a36; }
      .core { fill: #1e3a5f; stroke: #60a5fa; }
      .wire { stroke: #60a5fa; }
      .tip { fill: #60a5fa; }
    }
"""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture.

    Parameters
    ----------
    name : str
        Of its file, after ``exchange-``.
    title : str
    words : str
        What it shows, for those who do not see it.
    height : int
    parts : tuple of str
        Elements of SVG.
    """

    name: str
    title: str
    words: str
    height: int
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"exchange-{self.name}.svg"

    def svg(self) -> str:
        """Return it as SVG, for light and dark pages."""
        size = f'viewBox="0 0 {WIDTH} {self.height}" role="img" aria-labelledby="title desc"'
        tip = (
            '  <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
            'markerHeight="6" orient="auto-start-reverse"><path class="tip" d="M0 0 8 4 0 8z"/>'
            "</marker></defs>"
        )
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f'  <title id="title">{html.escape(self.title)}</title>',
            f'  <desc id="desc">{html.escape(self.words)}</desc>',
            f"  <style>{STYLE}  </style>",
            tip,
            f'  <rect class="page" width="{WIDTH}" height="{self.height}" rx="10"/>',
            *(f"  {part}" for part in self.parts),
            "</svg>",
        ]
        return "\n".join([*lines, ""])


def _box(x: float, y: float, wide: float, high: float, *texts: str, kind: str = "box") -> list[str]:
    """Draw a box with lines of text, the first one its head."""
    middle, first = x + wide / 2, y + high / 2 + 5 - 9 * (len(texts) - 1)
    lines = [
        f'<text class="{"small" if number else "head"}" x="{middle:g}" '
        f'y="{first + 18 * number:g}">{html.escape(text)}</text>'
        for number, text in enumerate(texts)
    ]
    shape = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="6"/>'
    return [shape, *lines]


def _arrow(start: Point, end: Point, *, both: bool = False) -> str:
    marks = 'marker-start="url(#tip)" ' * both + 'marker-end="url(#tip)"'
    return f'<path class="wire" {marks} d="{_line(start, end)}"/>'


def _counts(start: Point, end: Point) -> str:
    return f'<path class="count" d="{_line(start, end)}"/>'


def _line(start: Point, end: Point) -> str:
    return f"M{start[0]:g} {start[1]:g} {end[0]:g} {end[1]:g}"


def _note(x: float, y: float, text: str) -> str:
    return f'<text class="small" x="{x:g}" y="{y:g}">{html.escape(text)}</text>'


def _workers(*second: str) -> list[str]:
    """Draw workers on the right, each with a second line."""
    drawn: list[str] = []
    for number, text in enumerate(second):
        drawn += _box(590, 20 + 62 * number, WIDE, HIGH, f"Worker {number}", text)
    return drawn


def _through_driver(driver: Iterable[str], second: Iterable[str], above: str) -> tuple[str, ...]:
    """Draw the driver on the left, and an arrow to each worker and back."""
    starts = ((244, 92), (244, 104), (244, 116))
    ends = ((588, 42 + 62 * number) for number in range(3))
    wires = [_arrow(start, end, both=True) for start, end in zip(starts, ends, strict=True)]
    box = _box(20, 54, 222, 100, *driver, kind="core")
    return (*box, *_workers(*second), *wires, _note(400, 32, above))


def _server() -> Picture:
    return Picture(
        "ps",
        "Parameter server",
        "The driver holds the parameters. Each of three workers pushes what it learned and pulls "
        "the parameters when it is ready; they are at different batches, and none waits.",
        208,
        _through_driver(
            ("Driver", "parameters, combiner", "merges one push at a time"),
            ("after batch 40", "after batch 30", "after batch 50"),
            "push what was learned, pull parameters",
        ),
    )


def _star() -> Picture:
    return Picture(
        "star",
        "All-reduce through the driver",
        "Each of three workers sends the gradient of the same step to the driver. When all have "
        "come, the driver adds up, makes the step, and sends the new parameters to all.",
        208,
        _through_driver(
            ("Driver", "mean of all gradients,", "one step of the optimizer"),
            ("step 41", "step 41", "step 41"),
            "all gradients in, then parameters out",
        ),
    )


def _tree() -> Picture:
    return Picture(
        "tree",
        "Tree aggregation, as in MLlib",
        "In one iteration each of three workers draws a sample of its rows and sends the sum of "
        "its gradients to the driver, which makes one step and sends the weights back.",
        208,
        _through_driver(
            ("Driver", "sum of gradients, divided by", "rows; step size / √iteration"),
            ("a sample of its rows",) * 3,
            "sums of gradients in, then weights out",
        ),
    )


def _among_workers() -> Picture:
    panels = (
        (ring, "each with its neighbors", (0, 1, 3, 2)),
        (direct, "each with all others", (0, 1, 2, 3)),
        (halving, "each with one other", (0, 1, 2, 3)),
    )
    parts: list[str] = []
    for number, (make, text, corners) in enumerate(panels):
        parts += _panel(20 + 246 * number, make(4), text, corners)
    parts += _box(20, 210, 720, 40, "Driver: counts the steps; no gradient passes through it")
    return Picture(
        "workers",
        "All-reduce among four workers",
        "Three ways. Ring: each worker sends to the next one. Direct: each exchanges with all "
        "others. Halving: each exchanges with one other, and in the next round with another one. "
        "A thin line leads from the workers to the driver, which counts the steps.",
        270,
        tuple(parts),
    )


def _panel(left: float, schedule: Schedule, text: str, corners: Sequence[int]) -> list[str]:
    """Draw four workers, and a wire for all that two of them send each other."""
    places = ((20, 60), (136, 60), (20, 140), (136, 140))
    boxes = {worker: places[at] for at, worker in enumerate(corners)}
    rounds = max(map(len, schedule.ranks))
    drawn = [
        f'<text class="head" x="{left + 114:g}" y="26">{schedule.name}</text>',
        _note(left + 114, 45, f"{rounds} rounds, {text}"),
        _counts((left + 114, 182), (left + 114, 208)),
    ]
    for worker, (x, y) in boxes.items():
        drawn += _box(left + x, y, 72, 34, f"W{worker}")
    sent = _sent(schedule)
    for (source, target), numbers in sent.items():
        back = (target, source) in sent
        if back and source > target:
            continue
        start, end = _between(boxes[source], boxes[target])
        drawn.append(_arrow((left + start[0], start[1]), (left + end[0], end[1]), both=back))
        if back and len(numbers) < rounds:
            upright = start[0] == end[0]
            x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
            inward = 22 if x < 114 else -22
            label = ", ".join(map(str, numbers))
            drawn.append(
                _note(left + x + inward * upright, y + (5 if upright else _beside(y)), label)
            )
    return drawn


def _beside(y: float) -> float:
    return 21 if y < 110 else -12


def _sent(schedule: Schedule) -> dict[tuple[int, int], list[int]]:
    """Return in which rounds, from 1, a worker sends to another one."""
    found: dict[tuple[int, int], list[int]] = {}
    for rank, rounds in enumerate(schedule.ranks):
        for number, made in enumerate(rounds, 1):
            for message in made.sends:
                found.setdefault((rank, message.peer), []).append(number)
    return found


def _between(one: Point, other: Point) -> tuple[Point, Point]:
    """Return where a wire between two boxes of 72 by 34 begins and ends."""
    across, down = (((b > a) - (b < a)) for a, b in zip(one, other, strict=True))

    def edge(box: Point, sign: int) -> Point:
        x = box[0] + 36 + sign * across * 38
        return x, box[1] + 17 + sign * down * 19

    return edge(one, 1), edge(other, -1)


PICTURES = (_server(), _star(), _among_workers(), _tree())


def main() -> None:
    """Write all of them."""
    for picture in PICTURES:
        picture.path.write_text(picture.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
