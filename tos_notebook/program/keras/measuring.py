"""Measure rows with a Keras model, as its ``test_step`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from ...blocks.block import ColumnSpec, describe
from ...blocks.sparse import dense_batches
from ...common.arrays import Array
from ...runtime.eager import eagerly
from ..export.serving import pack_measure, specs_of
from ..export.symbolic import graph_only
from ..graph.rebuild import ancestors
from ..module.parts import mean_of
from .served import ServedLayers
from .structure import as_logs, require_call


class Measuring:
    """Adds up what a model's ``test_step`` finds; what no metric averages is averaged by rows.

    Parameters
    ----------
    model : keras.Model
    read : callable
        Takes the columns of a batch; returns what ``test_step`` takes.
    """

    def __init__(self, model: Any, read: Callable[[Sequence[tf.Tensor]], tuple[Any, ...]]) -> None:
        self._model = model
        self._what = f"the test step of model {model.name!r}"
        self._read = read
        # For these columns and this state.
        self._compiled: tuple[tuple[ColumnSpec, ...], list[Any], Any] = (), [], None
        # Of the latest trace.
        self._running: frozenset[str] = frozenset()
        self._means: list[str] = []
        with eagerly():
            # Of each of these, and the rows at the end; how many there are only a trace tells.
            self._totals = tf.Variable([0.0], shape=[None], dtype=tf.float64)

    def require(self, columns: Sequence[ColumnSpec] = ()) -> None:
        """See `Program.require_measuring`."""
        require_call(self._model, "test_step", "leave the evaluation out")
        if columns and type(self._model).test_step is not keras.Model.test_step:
            # Only a step of the user's own may fail where the training step does not.
            self._compile(tuple(columns))

    def pack(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Program.pack_measure`."""
        self.require()
        weights = [weight.value for weight in self._model.weights]
        layers = ServedLayers(self._model)
        served = layers.serving(self._inputs)
        looking_up = layers.looking_up(served.variables) if served else nullcontext()
        with graph_only(self._what), looking_up:
            pack_measure(self._step, columns, self._state, weights, self._reset, target, served)

    def _inputs(self, *batch: tf.Tensor) -> Any:
        return keras.utils.unpack_x_y_sample_weight(self._read(batch))[0]

    def measured(self, sums: Sequence[Array]) -> Mapping[str, float]:
        """See `Program.measured`."""
        for variable, value in zip(self._state(), sums, strict=True):
            variable.assign(tf.cast(value, variable.dtype))
        return self._found()

    def evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]:
        """Return loss and metrics over rows.

        Keras's own ``evaluate`` copies all of them each time, which costs more than to
        measure them.
        """
        self.require()
        step = self._compile(describe(tuple(columns)))
        self._reset()
        for batch in dense_batches(columns, batch_size):
            step(*batch)
        return self._found()

    def _compile(self, columns: tuple[ColumnSpec, ...]) -> Callable[..., object]:
        known, state, step = self._compiled
        # If the user compiles the model again, it has other metrics.
        if known != columns or list(map(id, state)) != list(map(id, self._state())):
            step = tf.function(self._step, input_signature=specs_of(columns), autograph=False)
            with graph_only(self._what):
                step.get_concrete_function()
            self._compiled = columns, self._state(), step
        return step

    def _step(self, *batch: tf.Tensor) -> None:
        logs = as_logs(self._model, "test_step", self._model.test_step(self._read(batch)))
        self._running = running_of(self._model, tf.compat.v1.get_default_graph(), logs)
        self._means = [name for name in logs if name not in self._running]
        rows = tf.cast(tf.shape(batch[0])[0], tf.float64)
        means = [tf.cast(mean_of(name, logs[name]), tf.float64) for name in self._means]
        self._totals.assign_add(rows * tf.stack([*means, tf.ones([], tf.float64)]))

    def _state(self) -> list[Any]:
        metrics = [v.value for metric in self._model.metrics for v in metric.variables]
        return [*metrics, self._totals]

    def _reset(self) -> None:
        self._model.reset_metrics()
        self._totals.assign([0.0] * (len(self._means) + 1))

    def _found(self) -> dict[str, float]:
        *totals, rows = self._totals.numpy().tolist()
        means = {name: total / rows for name, total in zip(self._means, totals, strict=True)}
        # A test_step of the user's own may use none of the metrics, which then have no result.
        results = self._model.get_metrics_result() if self._running else {}
        found = {name: float(value) for name, value in results.items()}
        self._reset()
        # Nor need it return all of them; or it has names of its own for their results.
        if self._running <= found.keys():
            found = {name: value for name, value in found.items() if name in self._running}
        return found | means


def running_of(model: Any, graph: Any, outputs: Mapping[str, Any]) -> frozenset[str]:
    """Return the outputs that are computed from a metric's variables.

    A ``train_step`` of the user's own may return the batch's loss under the same name as the
    metric that averages it.
    """
    handles = {id(v.value.handle) for metric in model.metrics for v in metric.variables}
    captured = {inner.op.name for outer, inner in graph.captures if id(outer) in handles}
    return frozenset(
        name
        for name, value in outputs.items()
        if not captured.isdisjoint(op.name for op in ancestors([value], waits=lambda _: False))
    )
