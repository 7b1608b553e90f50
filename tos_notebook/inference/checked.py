"""Which of the data's columns a model is fed."""

from __future__ import annotations

from collections.abc import Sequence

from ..blocks.block import ColumnSpec
from ..blocks.feeds import check_columns
from .servable import Servable


def checked(model: Servable, columns: Sequence[ColumnSpec]) -> list[tuple[int, ColumnSpec]]:
    """Return which of the data's columns are fed, in the order of the inputs, and what they are.

    Raises
    ------
    ShapeMismatch
        They do not fit the inputs.
    """
    inputs, fields = model.inputs, model.fields
    if len(columns) <= max(fields, default=-1) or len(columns) == len(inputs):
        fields = tuple(range(len(columns)))
    chosen = [columns[field] for field in fields]
    check_columns(chosen, inputs)
    return list(zip(fields, chosen, strict=True))
