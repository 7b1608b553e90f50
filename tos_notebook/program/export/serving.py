"""Make what only predicts, or measures rows by sums that add up: zipped SavedModels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from ...archive.spec import SIGNATURE_FILE, Port, Signature
from ...archive.stack_frames import operations
from ...blocks.block import ColumnSpec
from ...blocks.sparse import dense_batches
from ...common.arrays import Array
from ...errors import CaptureError, UnsupportedProgram
from .packing import guarded_save, zip_folder
from .served import Served, add_served
from .step import refuse_driver_bound
from .tracing import traced

ENTRY = "serving_default"
"""The signature that TensorFlow, too, writes and takes by default."""

SAVED_MODEL = "saved_model.pb"

INTERNAL = "__saved_model_init_op"
"""What TensorFlow lists among the signatures for itself."""

Predict = Callable[..., Mapping[str, tf.Tensor]]


def serve(
    predict: Predict,
    inputs: Sequence[tuple[str, tf.TensorSpec]],
    variables: Iterable[Any],
    target: Path,
    served: Served | None = None,
) -> None:
    """Trace what a model does with rows, and pack it with its variables' present values.

    Parameters
    ----------
    predict : callable
        Takes a tensor for each input; returns its outputs by name, each with a row for each row.
    inputs : sequence of (str, tf.TensorSpec)
        Names, and dtypes and shapes with the batch dimension.
    variables : iterable of tf.Variable
        All that it reads.
    target : Path
        Becomes the archive.
    served : Served, optional
        Tables of which `predict` needs rows.

    Raises
    ------
    UnsupportedProgram
        It holds an operation that only the driver can run, or returns no rows.
    """
    names: list[str] = []

    def keyed(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
        found = predict(*columns)
        names[:] = found
        return {f"output_{i}": tf.identity(value) for i, value in enumerate(found.values())}

    specs = [
        tf.TensorSpec(spec.shape, spec.dtype, f"input_{i}") for i, (_, spec) in enumerate(inputs)
    ]
    concrete = traced(keyed, *specs)
    refuse_driver_bound(operations(concrete.graph))
    module = tf.Module()
    module.variables_served = [*variables, *concrete.graph.variables]
    made = [concrete.structured_outputs[f"output_{i}"] for i in range(len(names))]
    outputs = tuple(
        _output(f"output_{i}", name, value.dtype, value.shape)
        for i, (name, value) in enumerate(zip(names, made, strict=True))
    )
    ports = tuple(
        Port(f"input_{i}", name, spec.dtype.name, tuple(spec.shape[1:]))
        for i, (name, spec) in enumerate(inputs)
    )
    if served is not None:
        add_served(module, served, specs)
    tables = () if served is None else tuple(served.tables)
    notes = {SIGNATURE_FILE: Signature(ENTRY, ports, outputs, tables).to_json()}
    guarded_save(module, notes, target, signatures={ENTRY: concrete})


def specs_of(columns: Sequence[ColumnSpec]) -> list[tf.TensorSpec]:
    """Return what a batch of each column is to TensorFlow."""
    return [tf.TensorSpec([None, *column.shape], column.dtype) for column in columns]


def _output(key: str, name: str, dtype: tf.DType, shape: tf.TensorShape) -> Port:
    if not shape.rank:
        raise UnsupportedProgram(
            f"Output {name!r} has shape {shape}: expected a row for each row that is fed, and as "
            "many dimensions for every batch."
        )
    return Port(key, name, dtype.name, tuple(shape[1:]))


def pack_measure(
    step: Callable[..., object],
    columns: Sequence[ColumnSpec],
    state: Callable[[], Sequence[Any]],
    reads: Iterable[Any],
    reset: Callable[[], object],
    target: Path,
    served: Served | None = None,
) -> None:
    """Trace what is done with a batch, and pack it with the variables' present values.

    Parameters
    ----------
    step : callable
        Takes a tensor for each column, and adds what it finds to the state.
    columns : sequence of ColumnSpec
    state : callable
        Returns, after the trace, the variables that are added to.
    reads : iterable of tf.Variable
        What else the step reads.
    reset : callable
        Puts the state back to where it begins.
    target : Path
        Becomes an archive; see `tos_notebook.runtime.served.Measure`.
    served : Served, optional
        Tables of which `step` needs rows.

    Raises
    ------
    UnsupportedProgram
        The step holds an operation that only the driver can run.
    """

    def measure(*batch: tf.Tensor) -> tf.Tensor:
        step(*batch)
        return tf.zeros([])

    concrete = traced(measure, *specs_of(columns))
    refuse_driver_bound(operations(concrete.graph))
    module = tf.Module()
    module.measure = concrete
    module.state = list(state())
    module.reads = [*reads, *concrete.graph.variables]
    if served is not None:
        add_served(module, served, specs_of(columns))
    reset()
    tables = () if served is None else tuple(served.tables)
    notes = {SIGNATURE_FILE: Signature("measure", (), (), tables).to_json()}
    guarded_save(module, notes, target)


def pack_means(
    measure: Callable[..., Iterable[tf.Tensor]],
    count: int,
    columns: Sequence[ColumnSpec],
    reads: Iterable[Any],
    target: Path,
) -> None:
    """Pack what measures a batch by so many means over its rows; see `pack_measure`."""
    total = tf.Variable(tf.zeros([count + 1], tf.float64))

    def step(*batch: tf.Tensor) -> None:
        rows = tf.cast(tf.shape(batch[0])[0], tf.float64)
        means = [tf.cast(value, tf.float64) for value in measure(*batch)]
        total.assign_add(rows * tf.stack([*means, 1.0]))

    pack_measure(step, columns, lambda: [total], reads, lambda: None, target)


def means_of(names: Iterable[str], sums: Sequence[Array]) -> dict[str, float]:
    """Return, by name, the means over all rows of what `pack_means` has packed."""
    *totals, rows = sums[0].tolist()
    return {name: total / rows for name, total in zip(names, totals, strict=True)}


def evaluated(
    measure: Callable[[list[Array]], Mapping[str, Any]],
    names: Iterable[str],
    columns: Sequence[Array],
    batch_size: int,
) -> dict[str, float]:
    """Return, by name, the means over all rows of what a function measures by the batch."""
    rows = len(columns[0])
    totals = dict.fromkeys(names, 0.0)
    for batch in dense_batches(columns, batch_size):
        for name, value in measure(batch).items():
            totals[name] += float(value) * len(batch[0])
    return {name: total / rows for name, total in totals.items()}


def adopt(folder: Path, entry: str | None, target: Path, tags: Collection[str] = ()) -> Signature:
    """Pack a SavedModel that was written elsewhere; return how it is called.

    Parameters
    ----------
    folder : Path
    entry : str or None
        Which of its signatures; None for the only one, or the one of `ENTRY`'s name.
    target : Path
        Becomes the archive.
    tags : collection of str
        Those of the one graph to take, of several; all graphs, of which there is mostly one.

    Raises
    ------
    CaptureError
        It is no SavedModel, or has no such graph or signature.
    """
    file = folder / SAVED_MODEL
    if not file.is_file():
        raise CaptureError(f"Expected a SavedModel, a folder with {SAVED_MODEL}; got {folder}.")
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    notes = _keep(saved, set(tags)) if tags else {}
    found = {
        name: value
        for graph in saved.meta_graphs
        for name, value in graph.signature_def.items()
        if name != INTERNAL
    }
    if not entry:
        entry = next(iter(found)) if len(found) == 1 else ENTRY
    if entry not in found:
        raise CaptureError(
            f"The SavedModel has no signature {entry!r}. It has {', '.join(found) or 'none'}: "
            "write it with model.export(folder), or with tf.saved_model.save(..., signatures=...)."
        )
    chosen = found[entry]
    outputs = tuple(
        _output(name, name, *_described(info)) for name, info in sorted(chosen.outputs.items())
    )
    inputs = (_input(name, *_described(info)) for name, info in sorted(chosen.inputs.items()))
    signature = Signature(entry, tuple(inputs), outputs)
    zip_folder(folder, {SIGNATURE_FILE: signature.to_json(), **notes}, target)
    return signature


def _keep(saved: Any, tags: set[str]) -> dict[str, bytes]:
    """Leave only the graphs of these tags in a SavedModel; return its file if that is another."""
    kept = [graph for graph in saved.meta_graphs if set(graph.meta_info_def.tags) == tags]
    if not kept:
        known = "; ".join(", ".join(graph.meta_info_def.tags) for graph in saved.meta_graphs)
        raise CaptureError(
            f"The SavedModel has no graph with the tags {', '.join(sorted(tags))}. It has: {known}."
        )
    if len(kept) == len(saved.meta_graphs):
        return {}
    del saved.meta_graphs[:]
    saved.meta_graphs.extend(kept)
    return {SAVED_MODEL: saved.SerializeToString()}


def _described(info: Any) -> tuple[tf.DType, tf.TensorShape]:
    return tf.dtypes.as_dtype(info.dtype), tf.TensorShape(info.tensor_shape)


def _input(name: str, dtype: tf.DType, shape: tf.TensorShape) -> Port:
    return Port(name, name, dtype.name, None if shape.rank is None else tuple(shape[1:]))
