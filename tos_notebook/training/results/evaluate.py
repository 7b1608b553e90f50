"""Loss and metrics of a run's model over other rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...common.told import told
from ...data.chosen import chosen
from ...data.datasets import is_dataset, rows_of
from ...data.described import DataDescription, is_frame
from ...data.rdd import is_rdd
from ...data.series import is_pandas
from ...data.source import require_rows
from ...data.tables import TableColumns, is_table
from ...errors import ConfigError, DataError
from .held_model import HeldModel


def rows(data: tuple[Any, ...], features: Any, label: Any) -> tuple[Any, ...]:
    """Return what users give to evaluate, with the columns of an only table."""
    if len(data) != 1 and features is None and label is None:
        if len(data) == 0:
            raise DataError("evaluate: expected rows, such as run.evaluate(x, y); got none.")
        if _is_table(data[0]) and any(map(_are_names, data[1:])):
            raise ConfigError(
                "evaluate: expected the names of columns as features=... and label=..., got them "
                "without these words."
            )
        return data
    return (chosen(data[0] if len(data) == 1 else data, features, label),)


def _is_table(data: Any) -> bool:
    return is_frame(data) or is_table(data)


def _are_names(part: Any) -> bool:
    """Return whether something is a name of a column, or several."""
    names = [part] if isinstance(part, str) else part
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)


@told("Evaluating the rows", "evaluate")
def evaluate(model: HeldModel, data: tuple[Any, ...], batch_size: int) -> Mapping[str, float]:
    """Evaluate the present parameters; see `tos_notebook.Run.evaluate`."""
    if len(data) == 1:
        require_rows(data[0], "evaluate")
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
