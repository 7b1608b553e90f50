"""Capture a plain TensorFlow 2 program: variables, a loss and an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from ...archive.spec import FeedSpec
from ...archive.stack_frames import collect, graphs, named_operations
from ...blocks.block import ColumnSpec
from ...common.arrays import Array, Buffer
from ...errors import CaptureError, UnsupportedProgram
from ...runtime.eager import eagerly
from ..export.base import ColumnType, Program
from ..export.cut import Recorder, value_of
from ..export.frozen import assigned, digest
from ..export.optimizers import (
    Counters,
    constant_rate,
    learning_rate_of,
    optimizer_for,
    scales_of,
    state_of,
)
from ..export.packing import export
from ..export.saving import keras_file, model_checkpoint, saved_model, saved_module
from ..export.serving import evaluated, means_of, pack_means, serve, specs_of
from ..export.step import Optimizing, Step, layout_of, trace, values_of
from ..export.symbolic import graph_only
from .parts import (
    Found,
    arguments,
    as_function,
    feed_specs,
    find_variables,
    mean_of,
)

Loss = Callable[..., Any]

STEP = "the training step of the module"
"""What is traced, for messages."""


class ModuleProgram(Program):
    """A module of TensorFlow's, or plain variables, with a loss and a Keras optimizer.

    The trainable variables are synchronized, and so are moving statistics: floating-point variables
    that the loss assigns. What else the loss uses is exported once; if it assigns
    that (counters, random generators), it stays local to each worker.

    Parameters
    ----------
    module : tf.Module, keras.Layer, keras.Model or list of tf.Variable
        What holds the variables, all of them created: call it once on a batch if it makes them
        late. Keras layers inside a module count. Of a list, exactly its variables are trained.
    loss : callable
        Takes a batch of each feed; returns the loss as a scalar, or for each row. A plain function
        or a `tf.function`.
    optimizer : keras.optimizers.Optimizer or str
    feeds : sequence of tf.TensorSpec
        The fields of a record, with a batch dimension of None in front.
    metrics : mapping of str to callable, optional
        Functions like `loss`, for additional values to report. Each is computed once for every
        batch, before the step; a milestone's value is their mean, weighted by rows.
    predict : callable, optional
        What `predict` computes: takes a batch of the first feeds, as many as it has arguments;
        returns a tensor, or tensors by name, with a row for each row.

    Raises
    ------
    CaptureError
        An argument is not what it should be, the module has no variables, or the loss uses others.
    ShapeMismatch
        The loss or a metric is neither a scalar nor one value for each row; or a feed has a fixed
        batch dimension.
    UnsupportedProgram
        Nothing to train, or an operation that only this process can run.
    """

    kind = "module"

    def __init__(
        self,
        module: Any,
        loss: Loss,
        optimizer: Any,
        feeds: Sequence[Any],
        metrics: Mapping[str, Loss] | None = None,
        predict: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        self._module = module
        self.feeds = feed_specs(feeds, loss)
        if metrics and (not isinstance(metrics, Mapping) or "loss" in metrics):
            raise CaptureError(
                "metrics: expected functions by name, other names than 'loss', such as "
                f"{{'accuracy': lambda x, y: ...}}; got {metrics!r}."
            )
        self._functions = {
            name: as_function(name, function, len(self.feeds))
            for name, function in {"loss": loss, **(metrics or {})}.items()
        }
        self._features = min(len(arguments(predict)), len(feeds))
        self._predict: Any = predict and as_function("predict", predict, self._features)
        with eagerly():
            found = find_variables(module)
            self._trainable = found.trainable
            self._optimizer = optimizer_for(optimizer, self._trainable)
            self._inner = getattr(self._optimizer, "inner_optimizer", self._optimizer)
            self._scales = scales_of([self._optimizer])
            self._specs = [tf.TensorSpec(spec.shape, spec.dtype) for spec in feeds]
            self._traced = trace(self._apply, self._specs, STEP)
        self._sort(found)

    def _sort(self, found: Found) -> None:
        """Tell what is synchronised, what each worker changes alone, and what does not change."""
        used = list(self._traced.function.graph.variables)
        unknown = [v.name for v in used if v.trainable and id(v) not in found.names]
        # A list says itself what is trained, and what not.
        if unknown and not found.chosen:
            raise CaptureError(
                f"The loss uses trainable variables that the module does not hold, {unknown[0]!r} "
                "among them: they would not be trained. Put them into the module (call it once if "
                "it makes them late), or list all variables to train instead of the module."
            )
        changed = set(map(id, assigned(self._traced.function, used)))
        kept = [v for v in map(value_of, found.others) if id(v) in changed]
        # Integers count steps, or are the state of random generators.
        moving = [v for v in kept if v.dtype.base_dtype.is_floating]
        self._values = [*map(value_of, self._trainable), *moving]
        self._names = [found.names[id(v)] for v in self._values]
        self._lay_out()
        state = state_of(self._inner)
        self._state = [v.value for v in state]
        self.optimizer_state = tuple(v.path for v in state)
        known = {*map(id, self._values), *(id(v.value) for v in self._optimizer.variables)}
        others = [v for v in used if id(v) not in known]
        self._fixed = [v for v in others if id(v) not in changed]
        # What evaluating has to put back.
        self._touched = [*moving, *(v for v in others if id(v) in changed)]

    def _lay_out(self) -> None:
        scales = self._scales if self.gradients else ()
        self._exchanged = [*self._values, *map(value_of, scales)]
        names = [*self._names, *(scale.path for scale in scales)]
        statistics = range(len(self._trainable), len(names))
        self.layout = layout_of(names, self._exchanged, statistics, len(self._values))

    def export(self, columns: Sequence[ColumnType]) -> Path:
        """See `Program.export`."""
        with eagerly():
            now = find_variables(self._module).trainable
        if list(map(id, now)) != list(map(id, self._trainable)):
            raise CaptureError(
                "Other variables of the module are trainable than when it was captured. Capture it "
                "again, with a new optimizer, and make a new session."
            )
        return super().export(columns)

    def _export(self, columns: tuple[ColumnType, ...], target: Path) -> None:
        specs = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in columns]
        rate = learning_rate_of(self._optimizer)
        with eagerly():
            counters = Counters([self._inner])
            recorder = Recorder([self._optimizer]) if self.gradients else None
            with counters.apart():
                step = recorder.recorded(self._apply) if recorder else self._apply
                traced = trace(step, specs, STEP)
            cut = None
            if recorder is not None:
                cut = recorder.cut(traced.function, self._exchanged, counters.apart)
            rate = None if rate is None else rate.value
            optimizing = Optimizing(rate, self._state, counters.restart)
            made = Step(self._exchanged, traced, optimizing, counters.variables, cut=cut)
            frames = collect(named_operations(graphs(traced.function.graph)))
            export(made, self._spec(tuple(self._functions)), specs, frames, target)

    def _apply(self, *batch: tf.Tensor) -> dict[str, tf.Tensor]:
        fed = self._cast(batch)
        with tf.GradientTape() as tape:
            loss = mean_of("loss", self._functions["loss"](*fed))
            scaled = self._optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, [value_of(v) for v in self._trainable])
        if all(gradient is None for gradient in gradients):
            raise CaptureError(
                "The loss does not depend on any of the variables. It must compute what the module "
                "returns for a batch itself, such as loss=lambda x, y: tf.reduce_mean("
                "(module(x) - y) ** 2)."
            )
        metrics = {
            name: mean_of(name, function(*fed))
            for name, function in self._functions.items()
            if name != "loss"
        }
        self._optimizer.apply(gradients, self._trainable)
        return {"loss": loss, **metrics}

    def _cast(self, batch: Sequence[Any]) -> list[tf.Tensor]:
        return [
            tf.cast(column, spec.dtype) for column, spec in zip(batch, self._specs, strict=False)
        ]

    @property
    def frozen(self) -> str:
        """See `Program.frozen`."""
        with eagerly():
            return digest(self._fixed)

    @property
    def drawing(self) -> tuple[str, bytes] | None:
        """See `Program.drawing`."""
        return "graph", self._traced.function.graph.as_graph_def().SerializeToString()

    @property
    def _writers(self) -> Mapping[str, Callable[[Path], None]]:
        found: dict[str, Callable[[Any, Path], None]] = {"checkpoint": model_checkpoint}
        if isinstance(self._module, tf.Module):
            found["savedmodel"] = saved_module
        if isinstance(self._module, keras.Model):
            found |= {"savedmodel": saved_model, "keras": keras_file}
        return {name: partial(write, self._module) for name, write in found.items()}

    @property
    def has_learning_rate(self) -> bool:
        """See `Program.has_learning_rate`."""
        return learning_rate_of(self._optimizer) is not None

    @property
    def learning_rate(self) -> float | None:
        """See `Program.learning_rate`."""
        return constant_rate(learning_rate_of(self._optimizer))

    @property
    def scales_loss(self) -> bool:
        """See `Program.scales_loss`."""
        return bool(self._scales)

    def read(self) -> Buffer:
        """See `Program.read`."""
        return values_of(self.layout, self._exchanged)

    def write(self, buffer: Buffer) -> None:
        """See `Program.write`."""
        with eagerly():
            tensors = self.layout.tensors(buffer).values()
            for variable, value in zip(self._exchanged, tensors, strict=True):
                variable.assign(value)

    @property
    def inputs(self) -> tuple[FeedSpec, ...]:
        """See `Predictor.inputs`."""
        if self._predict is None:
            raise UnsupportedProgram(
                "The program does not say how it predicts. Capture it with a function of the "
                "features: tos.capture(module, ..., predict=lambda x: tf.nn.softmax(module(x)))."
            )
        return self.feeds[: self._features]

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Predictor.serve`."""

        def predict(*batch: tf.Tensor) -> dict[str, tf.Tensor]:
            found = self._predict(*self._cast(batch))
            return dict(found) if isinstance(found, Mapping) else {"output": found}

        named = zip([feed.name for feed in self.inputs], specs_of(columns), strict=True)
        with eagerly(), graph_only("predict= of the module"):
            serve(predict, list(named), self._values, target)

    def pack_measure(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Program.pack_measure`."""

        def measure(*batch: tf.Tensor) -> Iterable[tf.Tensor]:
            return self._measure(batch).values()

        with eagerly():
            pack_means(measure, len(self._functions), columns, self._values, target)

    def measured(self, sums: Sequence[Array]) -> Mapping[str, float]:
        """See `Program.measured`."""
        return means_of(self._functions, sums)

    def _measure(self, batch: Sequence[Any]) -> dict[str, tf.Tensor]:
        """Measure with the module as it is: what a function assigns is put back."""
        fed, found = self._cast(batch), {}
        for name, call in self._functions.items():
            before = [variable.read_value() for variable in self._touched]
            found[name] = mean_of(name, call(*fed))
            for variable, value in zip(self._touched, before, strict=True):
                variable.assign(value)
        return found

    def _evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]:
        with eagerly():
            return evaluated(self._measure, self._functions, columns, batch_size)
