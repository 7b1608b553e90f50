"""Give a Keras model its weights, which it makes when it knows what rows look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.arrays import STRING, Array, dtype_of, is_text
from ..data.chosen import chosen
from ..data.dataframe.frame import FrameColumns
from ..data.datasets import is_dataset
from ..data.described import DataDescription
from ..data.parts import named_arrays
from ..data.source import as_source
from ..data.tables import TableColumns
from ..errors import CaptureError
from ..program.kinds import is_keras, is_sequential
from ..runtime.eager import eagerly


def is_unbuilt(model: Any) -> bool:
    """Whether a value is a Keras model that is compiled and has no weights yet."""
    if not is_keras(model) or not model.compiled:
        return False
    from ..program.keras.structure import is_built

    return not is_built(model)


def build(model: Any, sc: Any, data: Any) -> None:
    """Call a model once, on a row of zeros like those of the data, as Keras' ``fit`` does.

    Parameters
    ----------
    model : keras.Model
    sc : SparkContext
    data : object
        As for `TrainingSession.start`. The first of two fields is the input, or a mapping of them;
        of more, all but the last. Columns go by the names that `tos_notebook.columns` has.

    Raises
    ------
    CaptureError
        The model cannot be called on such a row, or a layer of it has no vocabulary.
    DataError, ShapeMismatch, ConnectError
        See `as_source`.
    """
    data = chosen(data)
    rows = _rows(sc, data)
    columns = FrameColumns | TableColumns
    if is_sequential(model) and isinstance(data, columns) and isinstance(rows, list):
        # It has one input, which takes all columns.
        rows = np.stack(rows, axis=-1)
    try:
        with eagerly():
            # A call would fix how many rows a Sequential takes.
            if is_sequential(model) and not isinstance(rows, Mapping | list):
                model.build((None, *rows.shape[1:]))
            model(rows)
    except Exception as error:
        _refuse_unlearned(model)
        raise CaptureError(
            f"Model {model.name!r} has no weights yet, and cannot be called on rows like those of "
            f"the data, {_text(rows)}. Give it a keras.Input, or call it once on a batch. It "
            f"says: {error}"
        ) from error


def _refuse_unlearned(model: Any) -> None:
    from ..program.export.tables import refuse_unlearned

    refuse_unlearned(model._flatten_layers(include_self=False))


def _rows(sc: Any, data: Any) -> Any:
    """Return a row of zeros in the structure of the inputs."""
    data = named_arrays(data, ())
    if isinstance(data, TableColumns):
        example = data.example()
        only = isinstance(example, list) and len(example) == 1
        return example[0] if only else example
    if isinstance(data, tuple | list):
        inputs = _inputs(data)
        if all(isinstance(part, Mapping) or hasattr(part, "shape") for part in inputs):
            zeros = [_zeros_of(part) for part in inputs]
            return zeros[0] if len(zeros) == 1 else zeros
    if is_dataset(data):
        return _example(data)
    source = as_source(sc, data, 1)
    try:
        columns = [_zeros(c.shape, c.dtype) for c in source.columns]
    finally:
        if source is not data:
            source.close()
    names: Any = data.features if isinstance(data, FrameColumns) else None
    if isinstance(names, Mapping):
        return dict(zip(names, columns, strict=False))
    labelled = not isinstance(data, DataDescription) or data.labelled
    found = columns[: len(names)] if names else _inputs(columns) if labelled else columns
    return found[0] if len(found) == 1 else found


def _example(dataset: Any) -> Any:
    """Return a row of zeros in the structure of a dataset's first part."""
    from ..data.dataset_graph import is_batched, row_spec

    spec = row_spec(dataset, is_batched(dataset, ()))
    return _zeros_like(spec[0] if isinstance(spec, tuple) else spec)


def _zeros_like(spec: Any) -> Any:
    if isinstance(spec, Mapping):
        return {name: _zeros_like(one) for name, one in spec.items()}
    if isinstance(spec, tuple):
        return [_zeros_like(one) for one in spec]
    return _zeros(tuple(spec.shape), spec.dtype.name)


def _inputs(fields: Sequence[Any]) -> Sequence[Any]:
    return fields[:-1] if len(fields) > 1 else fields


def _zeros_of(part: Any) -> Any:
    if isinstance(part, Mapping):
        return {name: _zeros_of(value) for name, value in part.items()}
    return _zeros(part.shape[1:], STRING if is_text(part) else part.dtype)


def _zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    rows = np.zeros((1, *shape), dtype_of(dtype))
    if dtype == STRING:
        rows.fill(b"")
    return rows


def _text(rows: Any) -> str:
    if isinstance(rows, Mapping):
        return ", ".join(f"{name!r} {_text(row)}" for name, row in rows.items())
    if isinstance(rows, list):
        return ", ".join(map(_text, rows))
    return f"{rows.dtype} of shape {rows.shape[1:]}"
