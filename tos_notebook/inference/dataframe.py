"""Predictions as further columns of a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..archive.spec import Port, read_signature
from ..blocks.block import Columns
from ..blocks.naming import Names, in_order
from ..blocks.skips import SkipCounter, Skipped
from ..cluster.backend import spark_context
from ..cluster.executors import task_cores
from ..cluster.jobs import spoken
from ..common.arrays import Array
from ..common.checks import RAISE_OR_SKIP
from ..data.arrow import ArrowDecoder
from ..data.dataframe import FrameColumns
from ..data.dataframe.batches import BATCH_ROWS
from ..errors import ConfigError, DataError, UnsupportedProgram
from .series import over_series
from .servable import Servable, checked, published
from .task import predict_published

NAME = "prediction"

WIDENED = {
    "bool": "bool",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "int16", "uint16": "int32", "uint32": "int64",
    "float16": "float32", "bfloat16": "float32", "float32": "float32", "float64": "float64",
}  # fmt: skip
"""Spark has no unsigned integers and no half precision."""


def predict_frame(
    model: Servable, data: FrameColumns, output: str | Names | None, batch_size: int, target: Path
) -> Any:
    """Return a DataFrame with a column for each output; see `Predictor.predict`."""
    frame = data.frame
    if data.on_bad not in RAISE_OR_SKIP:
        # The rows come when the result is used, in whatever parts Spark likes.
        raise ConfigError(
            f"on_bad: expected raise or skip for predict, got {data.on_bad!r}. With skip a bad row "
            "is predicted null: count those."
        )
    wanted = frame.select(*data.expressions(model.inputs))
    with spoken():
        columns = data.known(model.inputs) or data.looked_at(wanted, model.inputs)
    fed = checked(model, [column.spec for column in columns])
    model.serve([spec for _, spec in fed], target)
    ports = read_signature(target).outputs
    names = _names(ports, output)
    for name in names:
        if name in frame.columns:
            raise ConfigError(
                f"output: the DataFrame has a column {name!r} already. Choose another name: "
                'output="score".'
            )
    sc = spark_context(frame.sparkSession)
    skips = SkipCounter() if data.on_bad != "raise" else None
    task = _FrameTask(
        partial(predict_published, published(sc, model, target), task_cores(sc), batch_size),
        ArrowDecoder(None, columns, skips, True, data.advice),
        tuple(field for field, _ in fed),
        tuple(kind_of(port) for port in ports),
    )
    return _with_columns(frame, data.expressions(model.inputs), names, task)


def _names(ports: Sequence[Port], output: str | Names | None) -> list[str]:
    if output is None:
        return [NAME] if len(ports) == 1 else [f"{NAME}_{port.name}" for port in ports]
    names = list(in_order([output] if isinstance(output, str) else output, ports, "output"))
    if len(names) != len(ports) or len(set(names)) != len(names):
        raise ConfigError(
            f"output: expected {len(ports)} names, one for each of "
            f"{', '.join(port.name for port in ports)}; got {', '.join(names)}."
        )
    return names


def _with_columns(frame: Any, fed: Sequence[Any], names: Sequence[str], task: _FrameTask) -> Any:
    from pyspark.sql import functions, types

    check_batches(frame.sparkSession)
    fields = [types.StructField(f"f{i}", kind.spark) for i, kind in enumerate(task.kinds)]
    made = task.kinds[0].spark if len(names) == 1 else types.StructType(fields)
    if hasattr(functions, "arrow_udf"):
        predict = functions.arrow_udf(_function(task, len(fed)), made)
    else:
        # Spark 4.0.
        kinds = [field.dataType for field in frame.select(*fed).schema.fields]
        predict = over_series(task, kinds, made)
    if task.decoder.skips is not None:
        # Bad rows are predicted null, and about to be filtered out: Spark would predict all rows
        # for the filter, and those that are left once more.
        predict = predict.asNondeterministic()
    found = predict(*fed)
    if len(names) == 1:
        return frame.withColumn(names[0], found)
    return frame.withColumns({name: found.getField(f"f{i}") for i, name in enumerate(names)})


def check_batches(spark: Any) -> None:
    """Refuse Arrow batches without a limit, of which Spark's own functions never see the end.

    Raises
    ------
    ConfigError
        ``spark.sql.execution.arrow.maxRecordsPerBatch`` is 0 or less.
    """
    limit = spark.conf.get(BATCH_ROWS, "10000")
    if int(limit) < 1:
        raise ConfigError(
            f"{BATCH_ROWS} is {limit}: Spark's functions over Arrow batches never end then, so "
            f'no prediction would come. Set a limit: spark.conf.set("{BATCH_ROWS}", 10000).'
        )


def _function(task: _FrameTask, columns: int) -> Callable[[Any], Iterator[pa.Array]]:
    """Return what Spark calls; it goes by the hints of a function."""

    def predict_one(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return task([array] for array in batches)

    def predict(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return task(batches)

    return predict_one if columns == 1 else predict


@dataclass(frozen=True, slots=True)
class _FrameTask:
    """Predicts the Arrow batches of a partition."""

    task: Callable[[Sequence[Array]], tuple[Array, ...]]
    decoder: ArrowDecoder
    fields: tuple[int, ...]
    """Which of its columns are fed, in the order of the inputs."""
    kinds: tuple[Kind, ...]
    """Of the outputs."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the predictions of each batch of columns: a struct array for several outputs."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        names = [column.spec.name for column in self.decoder.columns]
        first = 0
        for batch in batches:
            rows = pa.RecordBatch.from_arrays(list(batch), names)
            step = self.decoder.images_at_once or max(1, len(rows))
            found = []
            for start in range(0, max(1, len(rows)), step):
                piece = rows.slice(start, step)
                skipped: dict[str, Skipped] = {}
                try:
                    block, good = self.decoder.decode(piece, partition, first, skipped)
                except DataError as error:
                    # Spark shows the traceback in front of the text, and it does not help.
                    raise error.with_traceback(None) from None
                found.append(self._predicted(block, good, len(piece)))
                first += len(piece)
            yield found[0] if len(found) == 1 else pa.concat_arrays(found)

    def _predicted(self, block: Columns, good: npt.NDArray[np.bool_] | None, rows: int) -> Any:
        if len(block[0]):
            found = self.task([block[field] for field in self.fields])
            arrays = [as_arrow(a, kind) for a, kind in zip(found, self.kinds, strict=True)]
        else:
            arrays = [pa.array([], kind.arrow) for kind in self.kinds]
        if good is not None:
            # Of each row, where its prediction is; nowhere for a bad one.
            places = pa.array(np.cumsum(good) - 1, mask=~good)
            arrays = [array.take(places) for array in arrays]
        if len(arrays) == 1:
            return arrays[0]
        return pa.StructArray.from_arrays(arrays, [f"f{i}" for i in range(len(arrays))])


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a column.

    Parameters
    ----------
    dtype : str
        One that Spark has: a value of `WIDENED`.
    depth : int
        How often its arrays are nested.
    """

    dtype: str
    depth: int

    @property
    def arrow(self) -> Any:
        """As Arrow's type."""
        kind = pa.from_numpy_dtype(np.dtype(self.dtype))
        for _ in range(self.depth):
            kind = pa.list_(kind)
        return kind

    @property
    def spark(self) -> Any:
        """As Spark's type."""
        from pyspark.sql.pandas.types import from_arrow_type

        return from_arrow_type(self.arrow)


def kind_of(port: Port) -> Kind:
    """Return the type of an output's column; one number for each row is a number.

    Raises
    ------
    UnsupportedProgram
        It is of a dtype that no column has.
    """
    if port.dtype not in WIDENED or port.shape is None:
        raise UnsupportedProgram(
            f"Output {port.name!r} is {port.dtype} of shape {port.shape}: expected numbers or "
            f"booleans ({', '.join(WIDENED)}) with a fixed number of dimensions."
        )
    depth = 0 if port.shape == (1,) else len(port.shape)
    return Kind(WIDENED[port.dtype], depth)


def as_arrow(array: Array, kind: Kind) -> Any:
    """Return rows as an Arrow array.

    Parameters
    ----------
    array : ndarray, shape (rows, ...)
    kind : Kind
    """
    flat = np.ascontiguousarray(array, np.dtype(kind.dtype)).reshape(-1)
    column = pa.array(flat)
    for axis in range(kind.depth, 0, -1):
        count, length = int(np.prod(array.shape[:axis])), array.shape[axis]
        offsets = np.arange(count + 1, dtype=np.int32) * length
        column = pa.ListArray.from_arrays(pa.array(offsets), column)
    return column
