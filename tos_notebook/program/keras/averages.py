"""Averages of a model's weights that its optimizers keep (``use_ema=True``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras

from ...runtime.eager import eagerly


class Averages:
    """What is exchanged of the averages, beside the weights, as statistics.

    Keras sets an average to its weight at an optimizer's first step. A worker's optimizer has made
    none when others have made many, so that whether there was one is exchanged, too.

    Parameters
    ----------
    optimizers : sequence of keras.optimizers.Optimizer
        Built; those without averages count for nothing.
    """

    def __init__(self, optimizers: Sequence[Any]) -> None:
        self._optimizers = [optimizer for optimizer in optimizers if optimizer.use_ema]
        with eagerly():
            self._begun = [_begun(optimizer) for optimizer in self._optimizers]

    @property
    def variables(self) -> list[Any]:
        """All of them, keras.Variable."""
        return [*(average for o in self._optimizers for _, average in _pairs(o)), *self._begun]

    @contextmanager
    def exchanged(self) -> Iterator[None]:
        """Let what is traced inside count the steps of all workers as one optimizer's."""
        for optimizer, begun in zip(self._optimizers, self._begun, strict=True):
            optimizer._update_model_variables_moving_average = partial(_update, optimizer, begun)
        try:
            yield
        finally:
            for optimizer in self._optimizers:
                del optimizer._update_model_variables_moving_average

    def finish(self) -> bool:
        """Put the averages into the weights, as ``fit`` does; return whether there are any.

        A weight's constraint holds for its average, too: what changes add up to may lie outside.
        """
        for optimizer in self._optimizers:
            for weight, average in _pairs(optimizer):
                allowed = weight.constraint
                weight.assign(average if allowed is None else allowed(average.value))
        return bool(self._optimizers)


def _pairs(optimizer: Any) -> list[tuple[Any, Any]]:
    """Return the weights that have an average, and it."""
    both = zip(
        optimizer._trainable_variables, optimizer._model_variables_moving_average, strict=True
    )
    return [(weight, average) for weight, average in both if average is not None]


def _begun(optimizer: Any) -> Any:
    """Return whether an optimizer has made a step; before it averages are the weights."""
    begun = int(optimizer.iterations.value.numpy()) > 0
    if not begun:
        # Else the changes of several workers would add up from 0.
        for weight, average in _pairs(optimizer):
            average.assign(weight)
    return keras.Variable(float(begun), trainable=False, dtype="float32", name="average_begun")


def _update(optimizer: Any, begun: Any, _: Any) -> None:
    for weight, average in _pairs(optimizer):
        past = keras.ops.cast(begun > 0, weight.dtype) * optimizer.ema_momentum
        average.assign(past * average + (1 - past) * weight)
    begun.assign(keras.ops.maximum(begun, 1.0))
