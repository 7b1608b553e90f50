"""Capture a plain TensorFlow 2 program: variables, a loss and an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ..errors import CaptureError, ShapeMismatch
from ..params import Array
from .base import ColumnType, Program
from .eager import eagerly
from .export import Step, export, layout_of, trace
from .frames import collect, graphs, named_operations
from .frozen import assigned, digest
from .functions import as_function, feed_specs
from .optimizers import Counters, learning_rate_of, slots_of
from .saving import keras_file, model_checkpoint, saved_model, saved_module
from .spec import ProgramSpec
from .variables import Found, find_variables, value_of

Loss = Callable[..., Any]


class ModuleProgram(Program):
    """A module of TensorFlow's, or plain variables, with a loss and a Keras optimizer.

    Synchronised are the trainable variables, and floating-point ones that are not trainable but
    assigned by the loss: moving statistics. What else the loss uses is exported once; if it assigns
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
        Functions like `loss`, for what is reported beside it. Each is computed once for every
        batch, before the step; a milestone's value is their mean, weighted by rows.

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
    ) -> None:
        super().__init__()
        self._module = module
        self.feeds = feed_specs(feeds, loss)
        self._functions = {
            name: as_function(name, function, len(self.feeds))
            for name, function in _named(loss, metrics or {}).items()
        }
        with eagerly():
            found = find_variables(module)
            self._trainable = found.trainable
            self._optimizer = _optimizer(optimizer, self._trainable)
            self._inner = getattr(self._optimizer, "inner_optimizer", self._optimizer)
            self._specs = [tf.TensorSpec(spec.shape, spec.dtype) for spec in feeds]
            self._traced = trace(self._apply, self._specs)
        self._sort(found)

    def _sort(self, found: Found) -> None:
        """Tell what is synchronised, what each worker changes alone, and what nobody changes."""
        used = list(self._traced.graph.variables)
        found.refuse_unknown(used)
        changed = set(map(id, assigned(self._traced, used)))
        kept = [v for v in map(value_of, found.others) if id(v) in changed]
        # Integers count steps, or are the state of random generators.
        moving = [v for v in kept if v.dtype.base_dtype.is_floating]
        self._values = [*map(value_of, self._trainable), *moving]
        self.layout = layout_of([found.names[id(v)] for v in self._values], self._values)
        slots = slots_of(self._inner)
        self._slots = [slot.value for slot in slots]
        self.slots = layout_of([slot.path for slot in slots], self._slots) if slots else None
        known = {*map(id, self._values), *(id(v.value) for v in self._optimizer.variables)}
        others = [v for v in used if id(v) not in known]
        self._fixed = [v for v in others if id(v) not in changed]
        # What evaluating has to put back.
        self._touched = [*moving, *(v for v in others if id(v) in changed)]

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
            with counters.apart():
                function = trace(self._apply, specs)
            step = Step(
                self._values,
                function,
                learning_rate=None if rate is None else rate.value,
                local=counters.variables,
                slots=self._slots,
                restart=counters.restart,
            )
            spec = ProgramSpec(
                self.kind,
                self.feeds,
                self.layout,
                tuple(self._functions),
                rate is not None,
                self.slots,
                self.frozen,
            )
            frames = collect(named_operations(graphs(function.graph)))
            export(step, spec, specs, frames, target)

    def _apply(self, *batch: tf.Tensor) -> dict[str, tf.Tensor]:
        fed = self._cast(batch)
        with tf.GradientTape() as tape:
            loss = _mean("loss", self._functions["loss"](*fed))
            scaled = self._optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, [value_of(v) for v in self._trainable])
        if all(gradient is None for gradient in gradients):
            raise CaptureError(
                "The loss does not depend on any of the variables. It must compute what the module "
                "returns for a batch itself, such as loss=lambda x, y: tf.reduce_mean("
                "(module(x) - y) ** 2)."
            )
        metrics = {
            name: _mean(name, function(*fed))
            for name, function in self._functions.items()
            if name != "loss"
        }
        self._optimizer.apply(gradients, self._trainable)
        return {"loss": loss, **metrics}

    def _cast(self, batch: Sequence[Any]) -> list[tf.Tensor]:
        return [
            tf.cast(column, spec.dtype) for column, spec in zip(batch, self._specs, strict=True)
        ]

    @property
    def frozen(self) -> str:
        """See `Program.frozen`."""
        with eagerly():
            return digest(self._fixed)

    @property
    def drawing(self) -> tuple[str, bytes] | None:
        """See `Program.drawing`."""
        return "graph", self._traced.graph.as_graph_def().SerializeToString()

    @property
    def _writers(self) -> dict[str, Callable[[Any, Path], None]]:
        found: dict[str, Callable[[Any, Path], None]] = {"checkpoint": model_checkpoint}
        if isinstance(self._module, tf.Module):
            found["savedmodel"] = saved_module
        if isinstance(self._module, keras.Model):
            found |= {"savedmodel": saved_model, "keras": keras_file}
        return found

    @property
    def formats(self) -> tuple[str, ...]:
        """See `Program.formats`."""
        return tuple(self._writers)

    def save(self, chosen: str, target: Path) -> None:
        """See `Program.save`."""
        self._writers[chosen](self._module, target)

    @property
    def has_learning_rate(self) -> bool:
        """See `Program.has_learning_rate`."""
        return learning_rate_of(self._optimizer) is not None

    def read(self) -> npt.NDArray[np.uint8]:
        """See `Program.read`."""
        buffer = self.layout.allocate()
        with eagerly():
            for view, value in zip(self.layout.tensors(buffer).values(), self._values, strict=True):
                view[...] = value.numpy()
        return buffer

    def write(self, buffer: npt.NDArray[np.uint8]) -> None:
        """See `Program.write`."""
        with eagerly():
            for variable, value in zip(
                self._values, self.layout.tensors(buffer).values(), strict=True
            ):
                variable.assign(value)

    def evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]:
        """See `Program.evaluate`. What the loss assigns is put back afterwards."""
        rows = len(columns[0])
        totals = dict.fromkeys(self._functions, 0.0)
        with eagerly():
            before = [v.numpy() for v in self._touched]
            for start in range(0, rows, batch_size):
                batch = self._cast([c[start : start + batch_size] for c in columns])
                for name, function in self._functions.items():
                    value = float(_mean(name, function(*batch)))
                    totals[name] += value * len(columns[0][start : start + batch_size])
            for variable, value in zip(self._touched, before, strict=True):
                variable.assign(value)
        return {name: total / rows for name, total in totals.items()}


def _named(loss: Loss, metrics: Mapping[str, Loss]) -> dict[str, Loss]:
    if not isinstance(metrics, Mapping) or "loss" in metrics:
        raise CaptureError(
            "metrics: expected functions by name, other names than 'loss', such as {'accuracy': "
            f"lambda x, y: ...}}; got {metrics!r}."
        )
    return {"loss": loss, **metrics}


def _optimizer(given: Any, variables: Sequence[Any]) -> Any:
    try:
        optimizer = keras.optimizers.get(given)
    except (ValueError, TypeError):
        optimizer = None
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise CaptureError(
            "optimizer: expected one of Keras, such as keras.optimizers.SGD(0.1) or 'sgd'; got "
            f"{given!r}."
        )
    if not optimizer.built:
        optimizer.build(variables)
    known = getattr(optimizer, "inner_optimizer", optimizer)._trainable_variables_indices
    if any(optimizer._var_key(v) not in known for v in variables):
        raise CaptureError(
            "optimizer: expected one that is new, or was used for these variables only; this "
            f"{type(optimizer).__name__} has trained others. Make another one."
        )
    return optimizer


def _mean(name: str, value: Any) -> tf.Tensor:
    try:
        tensor = tf.convert_to_tensor(value)
    except (ValueError, TypeError):
        tensor = None
    if tensor is None or tensor.dtype == tf.string or (tensor.shape.rank or 0) > 1:
        raise ShapeMismatch(
            f"{name}: expected a scalar, or one number for each row, got {value!r}. Reduce it with "
            "tf.reduce_mean."
        )
    return tf.reduce_mean(tensor if tensor.dtype.is_floating else tf.cast(tensor, tf.float32))
