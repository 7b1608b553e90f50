"""How Spark's tasks tell the driver which rows they leave out."""

from __future__ import annotations

from typing import Any

from pyspark import AccumulatorParam

from ..blocks.skips import Found, SkipCounter, limit_of


def counted(sc: Any, on_bad: str) -> SkipCounter | None:
    """Return what counts the rows that tasks leave out; None if they may leave out none."""
    limit = limit_of(on_bad)
    return None if limit == 0 else SkipCounter(sc.accumulator({}, _Union()), limit)


class _Union(AccumulatorParam[Found]):
    """Joins what tasks have found; a task that runs again finds the same."""

    def zero(self, value: Found) -> Found:
        return {}

    def addInPlace(self, value1: Found, value2: Found) -> Found:  # noqa: N802
        return {**value1, **value2}
