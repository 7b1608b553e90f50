"""Turn one training step into a portable program: a zipped SavedModel with its specification."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ..errors import UnsupportedProgram
from ..params import Layout, ParameterSpec
from .spec import SPEC_FILE, ProgramSpec

BOUND_TO_THE_DRIVER = {
    "PyFunc": "a Python function",
    "PyFuncStateless": "a Python function",
    "EagerPyFunc": "a Python function",
    "IteratorGetNext": "a dataset iterator",
    "IteratorV2": "a dataset iterator",
    "OneShotIterator": "a dataset iterator",
    "QueueDequeueV2": "an input queue",
    "QueueDequeueManyV2": "an input queue",
}
"""Operations that live in the driver's process and mean nothing elsewhere."""

Batch = tuple[tf.Tensor, ...]


class Step:
    """One training step of a program, as `export` needs it.

    Parameters
    ----------
    parameters : sequence of tf.Variable
        What is synchronised, in the layout's order.
    apply : callable
        Takes a batch (one tensor per feed), trains on it, and returns the outputs by name:
        scalar tensors.
    running : frozenset of str
        Outputs that are already means over all batches since `reset_metrics`; the others
        are averaged over the batches, weighted by samples.
    reset_metrics : callable
        Called before the first batch of each training call.
    learning_rate : tf.Variable, optional
    """

    def __init__(
        self,
        parameters: Sequence[tf.Variable],
        apply: Callable[[Batch], dict[str, tf.Tensor]],
        running: frozenset[str] = frozenset(),
        reset_metrics: Callable[[], None] = lambda: None,
        learning_rate: tf.Variable | None = None,
    ) -> None:
        self.parameters = tuple(parameters)
        self.apply = apply
        self.running = running
        self.reset_metrics = reset_metrics
        self.learning_rate = learning_rate


def layout_of(names: Sequence[str], variables: Sequence[tf.Variable]) -> Layout:
    """Return the layout of variables under the given names."""
    return Layout(
        ParameterSpec(name, tuple(v.shape.as_list()), v.dtype.base_dtype.name)
        for name, v in zip(names, variables, strict=True)
    )


def _adopt(step: Step, layout: Layout, vectors: Sequence[tf.Tensor]) -> None:
    for segment, vector in zip(layout.segments, vectors, strict=True):
        sizes = [layout.specs[i].size for i in segment.indices]
        parts = tf.split(vector, sizes) if len(sizes) > 1 else [vector]
        for index, part in zip(segment.indices, parts, strict=True):
            step.parameters[index].assign(tf.reshape(part, layout.specs[index].shape))


def _flatten(step: Step, layout: Layout) -> list[tf.Tensor]:
    return [
        tf.concat([tf.reshape(step.parameters[i], [-1]) for i in segment.indices], 0)
        for segment in layout.segments
    ]


def _train_function(step: Step, layout: Layout, outputs: Sequence[str]) -> Callable[..., Any]:
    running = tf.constant([name in step.running for name in outputs], tf.bool)

    def values_of(batch: Batch) -> tf.Tensor:
        found = step.apply(batch)
        if not outputs:
            return tf.zeros([0], tf.float64)
        return tf.stack([tf.cast(found[name], tf.float64) for name in outputs])

    def train(vectors: list[tf.Tensor], columns: list[tf.Tensor], batch_size: tf.Tensor) -> Any:
        _adopt(step, layout, vectors)
        step.reset_metrics()
        rows = tf.shape(columns[0])[0]

        def one_step(start: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            stop = tf.minimum(start + batch_size, rows)
            values = values_of(tuple(c[start:stop] for c in columns))
            weight = tf.cast(stop - start, tf.float64)
            return stop, tf.where(running, values, total + weight * values)

        _, total = tf.while_loop(
            lambda start, _: start < rows,
            one_step,
            (tf.constant(0), tf.zeros([len(outputs)], tf.float64)),
            parallel_iterations=1,
        )
        means = tf.where(running, total, total / tf.cast(rows, tf.float64))
        return _flatten(step, layout), means

    return train


def _operations(graph: tf.Graph) -> Iterator[tuple[str, str]]:
    """Yield (type, name) of every operation, those inside called functions included."""
    definition = graph.as_graph_def()
    for node in definition.node:
        yield node.op, node.name
    for function in definition.library.function:
        for node in function.node_def:
            yield node.op, node.name


def refuse_driver_bound(operations: Iterator[tuple[str, str]]) -> None:
    """Raise `UnsupportedProgram` at the first operation that only the driver can run."""
    for kind, name in operations:
        if kind in BOUND_TO_THE_DRIVER:
            raise UnsupportedProgram(
                f"Operation {name!r} ({kind}) is {BOUND_TO_THE_DRIVER[kind]} of this process; "
                "it cannot run on an executor. Use TensorFlow operations, or prepare the data "
                "in Spark and feed it."
            )


def export(step: Step, spec: ProgramSpec, columns: Sequence[tf.TensorSpec]) -> bytes:
    """Trace a step into its training loop and pack it.

    Parameters
    ----------
    step : Step
    spec : ProgramSpec
    columns : sequence of tf.TensorSpec
        dtype and shape, batch dimension included, of each feed's data.

    Returns
    -------
    bytes
        A zip archive: `SPEC_FILE` and a SavedModel.

    Raises
    ------
    UnsupportedProgram
        The step holds an operation that only the driver can run.
    """
    train = tf.function(_train_function(step, spec.layout, spec.outputs), autograph=False)
    concrete = train.get_concrete_function(
        [tf.TensorSpec([s.size], s.dtype) for s in spec.layout.segments],
        list(columns),
        tf.TensorSpec([], tf.int32),
    )
    refuse_driver_bound(_operations(concrete.graph))
    module = tf.Module()
    module.train = train
    module.parameters = list(step.parameters)
    known = {id(v) for v in module.parameters}
    module.local = [v for v in concrete.graph.variables if id(v) not in known]
    if step.learning_rate is not None:
        module.learning_rate = step.learning_rate
    return _pack(module, spec)


def _pack(module: tf.Module, spec: ProgramSpec) -> bytes:
    target = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="tos-export-") as folder:
        tf.saved_model.save(module, folder, signatures={})
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(SPEC_FILE, spec.to_json())
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder).as_posix())
    return target.getvalue()

