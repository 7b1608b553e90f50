"""Some rows of a table."""

from __future__ import annotations

from typing import NamedTuple

from .arrays import Array


class TableRows(NamedTuple):
    """Some rows of a table, or all of them."""

    ids: Array | None
    """Their numbers, int64, shape (k,), ascending; None for all."""
    values: Array
    """Shape (k, width)."""
