"""Loss and metrics of a run's model over other rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...data.described import DataDescription
from ...data.rdd import is_rdd
from .held_model import HeldModel


def evaluate(model: HeldModel, data: tuple[Any, ...], batch_size: int) -> Mapping[str, float]:
    """Evaluate the present parameters; see `tos_notebook.Run.evaluate`."""
    if len(data) == 1 and isinstance(data[0], tuple | list):
        # A longer list for a program of one feed is its rows.
        several = len(model.feeds) > 1 or len(data[0]) == 1
        data = tuple(data[0]) if several else data
    arrays = len(data) != 1 or not (is_rdd(data[0]) or isinstance(data[0], DataDescription))
    given = [_array(column) for column in data] if arrays else data[0]
    return model.evaluate(given, batch_size)


def _array(column: Any) -> Any:
    """Return what users give of one feed, or of several by name, as arrays."""
    if isinstance(column, Mapping):
        return {name: np.asarray(value) for name, value in column.items()}
    return np.asarray(column)
