"""Quantiles of a column, as Spark finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions

from .kinds import Column, depth_of


def quantiles(frame: Any, column: Column, shares: Sequence[float], error: float) -> list[float]:
    """Return the values below which given shares of a column's numbers lie; none for no number.

    Parameters
    ----------
    frame : DataFrame
    column : Column
        Of numbers, or of arrays of them. Nulls do not count.
    shares : sequence of float
    error : float
        By how much a share may be missed.
    """
    value = functions.explode(column.value) if depth_of(column.kind) else column.value
    found = frame.select(value.cast("double").alias("value")).dropna()
    return [float(boundary) for boundary in found.approxQuantile("value", [*shares], error)]
