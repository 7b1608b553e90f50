"""Rows with a published number beside ours, and their table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ..lib.harness import Row

COLUMNS = ("what", "published", "ours", "each seed", "setup", "goal", "within")


@dataclass(frozen=True)
class Options:
    """What the programs can be told.

    Parameters
    ----------
    quick : bool
        Fewer and shorter measurements.
    seeds : int
        How many.
    epochs : int
        Of the table of Hermans.
    """

    quick: bool
    seeds: int
    epochs: int


def row(
    what: str,
    value: float,
    unit: str,
    *,
    published: str,
    setup: str,
    each: str = "",
    goal: str = "",
    within: bool | None = None,
) -> Row:
    """Return a row; `within` is None where nothing is asked."""
    parts = {
        "published": published,
        "each seed": each,
        "setup": setup,
        "within": "" if within is None else ("yes" if within else "NO"),
    }
    return Row(what, value, unit, goal, parts)


def table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    cells = [COLUMNS, ["---"] * len(COLUMNS), *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _cells(row: Row) -> list[str]:
    parts = row.parts
    ours = f"{row.value:.4g} {row.unit}".strip()
    ends = [row.goal, parts["within"]]
    return [row.what, parts["published"], ours, parts["each seed"], parts["setup"], *ends]


def say(text: str) -> None:
    """Tell how far it is: some of these take an hour."""
    print(text, file=sys.stderr, flush=True)
