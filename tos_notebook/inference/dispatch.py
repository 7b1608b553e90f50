"""Choose how data of each kind are predicted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blocks.block import describe
from ..blocks.feeds import check_values
from ..blocks.naming import Names
from ..cluster.executors import active_context, task_cores
from ..cluster.jobs import spoken
from ..data.described import is_frame
from ..data.source import as_rows, named_arrays
from ..errors import ConfigError, ConnectError, DataError, ShapeMismatch
from .checked import checked
from .publish import publish
from .servable import Servable
from .task import PredictRows, PredictTask

if TYPE_CHECKING:
    from ..data.dataframe import FrameColumns


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

    if is_frame(data):
        if not features:
            raise DataError(
                f"Say which columns of the DataFrame to predict from: features=[...], one for each "
                f"of {', '.join(feed.name for feed in model.inputs)}. It has "
                f"{', '.join(data.columns)}."
            )
        data = dataframe.columns(data, features)
        if len(data.names) != len(model.inputs):
            raise ShapeMismatch(
                f"features: expected a column for each of "
                f"{', '.join(feed.name for feed in model.inputs)}; got {', '.join(data.names)}."
            )
    elif features:
        raise ConfigError(f"features: for a DataFrame only, got {type(data).__name__}.")
    if isinstance(data, dataframe.FrameColumns):
        from .dataframe import predict_frame

        return predict_frame(model, _arranged(data, model), output, batch_size, target)
    if output is not None:
        raise ConfigError(f"output: for a DataFrame only, got {type(data).__name__}.")
    data = named_arrays(data, model.inputs)
    arrays = data if isinstance(data, tuple | list) else (data,)
    if all(hasattr(array, "__array__") for array in arrays):
        return _predict_here(model, [np.asarray(array) for array in arrays], batch_size, target)
    return _predict_rdd(model, data, batch_size, target)


def _arranged(data: FrameColumns, model: Servable) -> FrameColumns:
    first = model.fields == tuple(range(len(data.features)))
    return data.of_inputs(model.inputs) if first else data


def _predict_here(model: Servable, arrays: list[Any], batch_size: int, target: Path) -> Any:
    from ..runtime.forward import Forward

    if any(array.ndim == 0 for array in arrays) or len({len(array) for array in arrays}) != 1:
        raise ShapeMismatch(
            "Expected arrays with as many rows each, got shapes "
            f"{', '.join(str(array.shape) for array in arrays)}."
        )
    fed = checked(model, describe(tuple(arrays)))
    check_values(tuple(arrays[field] for field, _ in fed), model.inputs)
    model.serve([spec for _, spec in fed], target)
    found = Forward(target)([arrays[field] for field, _ in fed], batch_size)
    return found[0] if len(found) == 1 else found


def _predict_rdd(model: Servable, data: Any, batch_size: int, target: Path) -> Any:
    from ..data.rdd import is_rdd

    sc = data.context if is_rdd(data) else active_context()
    if sc is None:
        raise ConnectError("Spark is needed to predict: call tos.connect() first.")
    if is_rdd(data):
        data = data.map(_as_record)
    with spoken():
        source = as_rows(sc, data, sc.defaultParallelism, model.inputs, use="predict")
    fed = checked(model, source.columns)
    model.serve([spec for _, spec in fed], target)
    task = PredictTask(publish(sc, target), task_cores(sc), batch_size)
    return source.tasks(sc).mapPartitions(PredictRows(task, tuple(field for field, _ in fed)))


def _as_record(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
