"""What the fields of a record are for a Keras model, and how its own steps take a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from ...archive.spec import FeedSpec
from . import structure
from .class_weights import ClassWeights
from .serving import preprocessed


class Fields:
    """Inputs, labels and a weight, in this order.

    Parameters
    ----------
    model : keras.Model
        Built.
    labels, weights, class_weight, preprocess : object
        See `tos_notebook.program.keras.program.KerasProgram`.
    """

    labelled = True
    """Whether records have labels; may be set where the model can do without."""

    def __init__(
        self,
        model: Any,
        labels: int | None,
        weights: bool,
        class_weight: Mapping[int, float] | None,
        preprocess: Callable[[Any], Any] | None,
    ) -> None:
        self._model = model
        self._preprocess = preprocess
        self.struct = structure.inputs_of(model)
        self._outputs = structure.outputs_of(model)
        inputs = structure.leaves(self.struct)
        if preprocess is not None:
            # What comes in may be of any shape and dtype that it takes.
            inputs = [FeedSpec(feed.name, None, None) for feed in inputs]
        self.inputs = tuple(replace(feed, part="inputs") for feed in inputs)
        self._weight = (FeedSpec("sample_weight", None, (), part="weight"),) if weights else ()
        known = len(structure.leaves(self._outputs)) if labels is None else labels
        self._labels = self._labels_of(known)
        self._optional = labels is None and not structure.needs_labels(model)
        self._class_weights = None
        if class_weight is not None:
            classes = self._labels[0].classes if known == 1 else None
            self._class_weights = ClassWeights(class_weight, known, classes)

    def _labels_of(self, count: int) -> tuple[FeedSpec, ...]:
        names = structure.labels_of(self._model, count)
        known = zip(names, structure.classes_of(self._model, count), strict=True)
        return tuple(FeedSpec(name, None, None, number, "labels") for name, number in known)

    @property
    def labels(self) -> tuple[FeedSpec, ...]:
        """Those that records have."""
        return self._labels if self.labelled or not self._optional else ()

    def expect_classes(self, count: int) -> None:
        """Let labels be checked to be whole numbers from 0 to `count` - 1."""
        self._labels = tuple(replace(feed, classes=count) for feed in self._labels)

    @property
    def all(self) -> tuple[FeedSpec, ...]:
        """One for each field."""
        return (*self.inputs, *self.labels, *self._weight)

    @property
    def parts(self) -> Mapping[str, tuple[FeedSpec, ...]]:
        """What they are for."""
        parts = {"inputs": self.inputs, "labels": self.labels, "weight": self._weight}
        return {name: feeds for name, feeds in parts.items() if feeds}

    def batch(self, fed: Sequence[tf.Tensor], training: bool = False) -> Any:
        """Return what the model's own steps take, in the structures that the model expects.

        Inputs alone are no tuple, as in ``fit(x)``.
        """
        features = len(self.inputs)
        end = features + len(self.labels)
        # Of what comes to be prepared the user says what it becomes.
        kept = features if self._preprocess is not None else 0
        rest = structure.as_fit_does(self._model, fed[kept:], self.all[kept:])
        fed = [*fed[:kept], *rest]
        x = structure.pack(self.struct, fed[:features])
        x = x if self._preprocess is None else preprocessed(self._model, self._preprocess, x)
        y = structure.pack(self._outputs, fed[features:end])
        weight = fed[end] if self._weight else None
        if training and self._class_weights is not None:
            by_class = self._class_weights(y)
            weight = by_class if weight is None else by_class * tf.cast(weight, tf.float32)
        if y is None and weight is not None:
            return x, None, weight
        return keras.utils.pack_x_y_sample_weight(x, y, weight)
