"""Capture a compiled Keras model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ..errors import CaptureError, UnsupportedProgram
from ..params import Array, Layout
from .base import ColumnType, Program
from .eager import eagerly
from .export import Batch, Step, export, layout_of
from .spec import FeedSpec, ProgramSpec


class KerasProgram(Program):
    """A compiled Keras 3 model.

    Its weights are synchronised (moving statistics of BatchNormalization too); optimizer
    slots, metrics and random seeds stay local to each worker.

    Parameters
    ----------
    model : keras.Model
        Built and compiled.

    Raises
    ------
    CaptureError
        The model is not built or not compiled, or Keras runs on another backend.
    UnsupportedProgram
        It has no weights that could be trained.
    """

    kind = "keras"

    def __init__(self, model: Any) -> None:
        super().__init__()
        _check(model)
        self._model = model
        with eagerly():
            model.optimizer.build(model.trainable_variables)
        self._weights = [w for w in model.weights if _arithmetic(w)]
        self.layout = _layout(self._weights)
        self.feeds = tuple(_inputs(model)) + tuple(_labels(model))

    def _export(self, columns: tuple[ColumnType, ...]) -> tuple[ProgramSpec, bytes]:
        rate = self._learning_rate
        specs = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in columns]
        with eagerly():
            function = trace(self._apply, specs)
            outputs = sorted(function.structured_outputs, key=lambda name: name != "loss")
            spec = ProgramSpec(
                self.kind, self.feeds, self.layout, tuple(outputs), self.has_learning_rate
            )
            step = Step(
                [w.value for w in self._weights],
                function,
                running=_running(self._model, function),
                reset_metrics=self._model.reset_metrics,
                learning_rate=None if rate is None else rate.value,
            )
            operations = (op for g in graphs(function.graph) for op in g.get_operations())
            layers = [layer.name for layer in self._model._flatten_layers()]
            return spec, export(step, spec, specs, collect(operations, layers))

    def _apply(self, *batch: tf.Tensor) -> dict[str, tf.Tensor]:
        data: tuple[Any, ...] = (_structured(self._model, batch[: self._inputs]),)
        if labels := batch[self._inputs :]:
            data += (_pack(getattr(self._model, "_outputs_struct", None), labels),)
        logs = self._model.train_step(data)
        if not isinstance(logs, Mapping):
            raise CaptureError(
                f"The train_step of model {self._model.name!r} must return a dict of scalars by "
                f"name, such as {{'loss': loss}}; got {logs!r}."
            )
        return dict(logs)

    @property
    def _learning_rate(self) -> Any:
        rate = self._model.optimizer._learning_rate
        return rate if isinstance(rate, keras.Variable) else None

    @property
    def has_learning_rate(self) -> bool:
        """See `Program.has_learning_rate`."""
        return self._learning_rate is not None

    def read(self) -> npt.NDArray[np.uint8]:
        """See `Program.read`."""
        with eagerly():
            return self.layout.pack([w.value.numpy() for w in self._weights])

    def write(self, buffer: npt.NDArray[np.uint8]) -> None:
        """See `Program.write`."""
        values = self.layout.tensors(buffer).values()
        with eagerly():
            for weight, value in zip(self._weights, values, strict=True):
                weight.assign(value)

    def evaluate(self, columns: Sequence[Array], batch_size: int) -> Mapping[str, float]:
        """See `Program.evaluate`."""
        inputs = len(_inputs(self._model))
        labels = list(columns[inputs:])
        with eagerly():
            found = self._model.evaluate(
                _structured(self._model, list(columns[:inputs])),
                labels[0] if len(labels) == 1 else labels or None,
                batch_size=batch_size,
                verbose=0,
                return_dict=True,
            )
        return {name: float(value) for name, value in found.items()}


def _check(model: Any) -> None:
    if keras.backend.backend() != "tensorflow":
        raise CaptureError(
            f"Keras runs on backend {keras.backend.backend()!r}; expected 'tensorflow'. Set "
            "KERAS_BACKEND=tensorflow before importing keras."
        )
    if not model.built:
        raise CaptureError(
            f"Model {model.name!r} has no weights yet. Give it a keras.Input, or call it once on "
            "a batch."
        )
    if not model.compiled:
        raise CaptureError(
            f"Model {model.name!r} is not compiled: call model.compile(optimizer, loss) first."
        )
    if not model.trainable_variables:
        raise UnsupportedProgram(f"Model {model.name!r} has nothing to train: no trainable weight.")
    if model.run_eagerly:
        raise UnsupportedProgram(
            f"Model {model.name!r} is compiled with run_eagerly=True: its Python code would have to "
            "run on the executors. Compile it without."
        )


def _arithmetic(weight: Any) -> bool:
    return np.dtype(tf.as_dtype(weight.dtype).as_numpy_dtype).kind in "fiu"


def _layout(weights: Sequence[Any]) -> Layout:
    paths = [w.path for w in weights]
    # Subclassed models may hold two weights of one path; a number tells them apart.
    names = [p if paths.count(p) == 1 else f"{p}#{i}" for i, p in enumerate(paths)]
    return layout_of(names, [w.value for w in weights])


def _inputs(model: Any) -> list[FeedSpec]:
    tensors = getattr(model, "inputs", None)
    if not tensors:
        return [FeedSpec("x", None, None)]
    return [FeedSpec(t.name, t.dtype, tuple(t.shape[1:])) for t in tensors]


def _labels(model: Any) -> list[FeedSpec]:
    count = len(getattr(model, "outputs", None) or [None])
    names = ["y"] if count == 1 else [f"y{i}" for i in range(count)]
    return [FeedSpec(name, None, None) for name in names]


def _structured(model: Any, features: list[Any]) -> Any:
    """Return the features in the structure the model was built with (tensor, list, dict)."""
    if len(features) == 1:
        return features[0]
    return keras.tree.pack_sequence_as(model.input, features)

