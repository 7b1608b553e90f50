"""Loss and metrics of a run's model over other rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...data.chosen import chosen
from ...data.datasets import is_dataset, rows_of
from ...data.described import DataDescription
from ...data.rdd import is_rdd
from ...data.series import is_pandas
from ...data.tables import TableColumns
from .held_model import HeldModel


def rows(data: tuple[Any, ...], features: Any, label: Any) -> tuple[Any, ...]:
    """Return what users give to evaluate, with the columns of an only table."""
    if len(data) != 1 and features is None and label is None:
        return data
    return (chosen(data[0] if len(data) == 1 else data, features, label),)


def evaluate(model: HeldModel, data: tuple[Any, ...], batch_size: int) -> Mapping[str, float]:
    """Evaluate the present parameters; see `tos_notebook.Run.evaluate`."""
    if len(data) == 1 and isinstance(data[0], TableColumns):
        data = data[0].arrays(model.feeds)
    if len(data) == 1 and is_dataset(data[0]):
        data = rows_of(data[0], model.feeds)
    if len(data) == 1 and isinstance(data[0], tuple | list):
        # A longer list for a program of one feed is its rows.
        several = len(model.feeds) > 1 or len(data[0]) == 1
        data = tuple(data[0]) if several else data
    arrays = len(data) != 1 or not (is_rdd(data[0]) or isinstance(data[0], DataDescription))
    given = tuple(map(_array, data)) if arrays else data[0]
    return model.evaluate(given, batch_size)


def _array(column: Any) -> Any:
    """Return what users give of one feed, or of several by name, as arrays."""
    if isinstance(column, Mapping):
        return {name: _array(value) for name, value in column.items()}
    return column if is_pandas(column) or isinstance(column, list) else np.asarray(column)
