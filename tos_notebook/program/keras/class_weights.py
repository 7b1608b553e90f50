"""What a row counts in the loss: by its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ...common.checks import class_weights
from ...errors import CaptureError, ConfigError


class ClassWeights:
    """A weight for each class, as Keras takes them in ``fit(class_weight=...)``.

    Parameters
    ----------
    weights : mapping of int to float
        By class, from 0; a class that is not named counts 1.
    labels : int
        How many labels the model has.
    classes : int, optional
        How many classes its output tells apart; None if that is not known.

    Raises
    ------
    CaptureError
        A class or a weight is below 0, or the model has several labels, or none, or no such
        class.
    """

    def __init__(
        self, weights: Mapping[int, float], labels: int, classes: int | None = None
    ) -> None:
        if labels != 1:
            raise CaptureError(
                f"class_weight: expected a model with one label, got {labels}. Give each row a "
                "weight instead: weights=True."
            )
        try:
            class_weights("class_weight", weights)
        except ConfigError as error:
            raise CaptureError(str(error)) from None
        if classes is not None and max(weights) >= classes:
            raise CaptureError(
                f"class_weight: expected classes from 0 to {classes - 1}, which the model's output "
                f"tells apart; got {int(max(weights))}."
            )
        self._table = np.ones(int(max(weights)) + 1, np.float32)
        for label, weight in weights.items():
            self._table[int(label)] = weight

    def __call__(self, labels: Any) -> Any:
        """Return the weight of each row, as a tensor of shape (rows,).

        Parameters
        ----------
        labels : Tensor, shape (rows,) or (rows, 1), or (rows, classes) of one-hot values
        """
        if labels.shape.rank == 2 and labels.shape[1] != 1:
            classes = tf.argmax(labels, axis=1)
        else:
            classes = tf.cast(tf.reshape(labels, [-1]), tf.int64)
        named = (classes >= 0) & (classes < len(self._table))
        return tf.where(named, tf.gather(self._table, tf.where(named, classes, 0)), 1.0)
