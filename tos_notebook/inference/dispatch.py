"""Choose how data of each kind are predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..blocks.block import Columns, describe
from ..blocks.feeds import check_values
from ..blocks.naming import Names
from ..cluster.executors import active_context, task_cores
from ..cluster.jobs import spoken
from ..data.by_names import as_inputs
from ..data.chosen import FrameByNames, chosen
from ..data.datasets import inputs_of, is_dataset
from ..data.described import is_frame
from ..data.parts import named_arrays
from ..data.series import is_pandas
from ..data.source import as_rows, require_rows
from ..data.tables import is_table
from ..errors import ConfigError, ConnectError, ShapeMismatch
from .arrays import check_names, check_rows
from .servable import Servable, checked, published
from .task import predict_published


def predict(
    model: Servable,
    data: Any,
    features: str | Names,
    output: str | Names | None,
    batch_size: int,
    target: Path,
) -> Any:
    """Predict; see `Predictor.predict`. `target` is where the archive may lie meanwhile."""
    from ..data import dataframe

    check_names(features)
    names = None if isinstance(features, str | list | tuple) and not features else features
    if is_dataset(data):
        data = inputs_of(data, as_inputs(model.inputs))
    if is_frame(data):
        data = chosen(data, names)
        if isinstance(data, FrameByNames):
            data = data.columns(as_inputs(model.inputs))
        data = data.stacked(as_inputs(model.inputs))
        if len(data.names) != len(model.inputs):
            raise ShapeMismatch(
                f"features: expected a column for each of "
                f"{', '.join(feed.name for feed in model.inputs)}; got {', '.join(data.names)}."
            )
    elif names is not None or (is_table(data) and not (len(model.inputs) == 1 and is_pandas(data))):
        # All columns of pandas' are one array, as they are to Keras.
        data = chosen(data, names).of_inputs(model.inputs)
    if isinstance(data, dataframe.FrameColumns):
        from .dataframe import predict_frame

        data = data.stacked(as_inputs(model.inputs))
        if model.fields == tuple(range(len(data.features))):
            data = data.of_inputs(model.inputs)
        return predict_frame(model, data, output, batch_size, target)
    if output is not None:
        raise ConfigError(f"output: for a DataFrame only, got {type(data).__name__}.")
    data = named_arrays(data, model.inputs)
    arrays = data if isinstance(data, tuple | list) else (data,)
    if all(hasattr(array, "__array__") for array in arrays):
        return _predict_here(model, [np.asarray(array) for array in arrays], batch_size, target)
    return _predict_rdd(model, data, batch_size, target)


def _predict_here(model: Servable, arrays: list[Any], batch_size: int, target: Path) -> Any:
    from ..runtime.served import Forward

    check_rows(arrays, "predict")
    fed = checked(model, describe(tuple(arrays)))
    check_values(tuple(arrays[field] for field, _ in fed), model.inputs)
    model.serve([spec for _, spec in fed], target)
    find = None if model.served is None else model.served.find_rows
    found = Forward(target, find)([arrays[field] for field, _ in fed], batch_size)
    return found[0] if len(found) == 1 else found


def _predict_rdd(model: Servable, data: Any, batch_size: int, target: Path) -> Any:
    from ..data.rdd import is_rdd

    require_rows(data, "predict")
    sc = data.context if is_rdd(data) else active_context()
    if sc is None:
        raise ConnectError("Spark is needed to predict: call tos.connect() first.")
    if is_rdd(data):
        data = data.map(lambda value: value if isinstance(value, tuple) else (value,))
    with spoken():
        source = as_rows(sc, data, sc.defaultParallelism, model.inputs, use="predict")
    fed = checked(model, source.columns)
    model.serve([spec for _, spec in fed], target)
    task = partial(predict_published, published(sc, model, target), task_cores(sc), batch_size)
    fields = [field for field, _ in fed]

    def predicted(blocks: Iterable[Columns]) -> Iterator[Any]:
        """Yield an array for each row; a tuple of them where there are several outputs."""
        for block in blocks:
            found = task([block[field] for field in fields])
            yield from found[0] if len(found) == 1 else zip(*found, strict=True)

    return source.tasks(sc).mapPartitions(predicted)
