"""Keras optimizers: which of their variables are state, and how their counters restart.

State belongs to parameters: momentum, Adam's m and v. The learning rate, the scale of a loss,
gradients that are still being accumulated and averages of the weights themselves are not state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from ...errors import CaptureError
from ...runtime.eager import eagerly


def optimizers_of(model: Any) -> list[Any]:
    """Return the optimizers that a model holds; instead of a wrapper, the one inside."""
    return [getattr(optimizer, "inner_optimizer", optimizer) for optimizer in held_by(model)]


def held_by(model: Any) -> list[Any]:
    """Return the optimizers that a model's own step uses, wrappers included."""
    held = [v for v in vars(model).values() if isinstance(v, keras.optimizers.Optimizer)]
    return list({id(optimizer): optimizer for optimizer in held}.values())


def scales_of(optimizers: Sequence[Any]) -> list[Any]:
    """Return the scales of losses that optimizers change, keras.Variable.

    An update may change them, and the gradients of the next batches need them.
    """
    wrappers = [o for o in optimizers if isinstance(o, keras.optimizers.LossScaleOptimizer)]
    return [wrapper.dynamic_scale for wrapper in wrappers]


def optimizer_for(given: Any, variables: Sequence[Any]) -> Any:
    """Return a Keras optimizer that is built for variables.

    Parameters
    ----------
    given : keras.optimizers.Optimizer or str
    variables : sequence of tf.Variable or keras.Variable

    Raises
    ------
    CaptureError
        It is something else, or was used for other variables.
    """
    try:
        optimizer = keras.optimizers.get(given)
    except (ValueError, TypeError):
        optimizer = None
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise CaptureError(
            "optimizer: expected one of Keras, such as keras.optimizers.SGD(0.1) or 'sgd'; got "
            f"{given!r}."
        )
    if getattr(optimizer, "inner_optimizer", optimizer).use_ema:
        raise CaptureError(
            "optimizer: expected one without use_ema=True, whose averages only a compiled Keras "
            "model's training keeps. Compile the model with it, and capture that."
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


def learning_rate_of(optimizer: Any) -> Any:
    """Return an optimizer's learning rate, a keras.Variable; None if it is not a variable."""
    # A wrapper that scales the loss has a learning rate of its own, which does nothing.
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = getattr(optimizer, "_learning_rate", None)
    return rate if isinstance(rate, keras.Variable) else None


def constant_rate(rate: Any) -> float | None:
    """Return the value of what `learning_rate_of` found; None if it found nothing."""
    if rate is None:
        return None
    with eagerly():
        return float(rate.value.numpy())


def state_of(optimizer: Any) -> list[Any]:
    """Return the variables of a built optimizer that belong to parameters."""
    others = [
        optimizer._learning_rate,
        *getattr(optimizer, "_model_variables_moving_average", ()),
        *getattr(optimizer, "_accumulated_gradients", ()),
    ]
    known = set(map(id, others))
    # What is not a float counts steps.
    return [
        v for v in optimizer.variables if tf.as_dtype(v.dtype).is_floating and id(v) not in known
    ]


class Counters:
    """Lets optimizers restart their count of steps, and schedules of the learning rate continue.

    Keras counts once for both. Adam divides m by ``1 - beta_1 ** steps`` and v by the like, which
    is right only where `steps` counts since m and v were 0: with them at 0 and the count going
    on, its steps become up to 6.6 times as long. A schedule must not be thrown back, though. So a
    second variable holds the steps that were made before the last restart.

    Parameters
    ----------
    optimizers : sequence of keras.optimizers.Optimizer
    """

    def __init__(self, optimizers: Sequence[Any]) -> None:
        self._optimizers = optimizers
        self._first = [int(o._iterations.value.numpy()) for o in optimizers]
        self._before = [tf.Variable(0, dtype=o._iterations.dtype) for o in optimizers]

    @property
    def variables(self) -> list[tf.Variable]:
        """All that it reads and writes."""
        return [*self._before, *(o._iterations.value for o in self._optimizers)]

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Let what is traced inside compute schedules from all steps."""
        rates = [o._learning_rate for o in self._optimizers]
        for optimizer, rate, before in zip(self._optimizers, rates, self._before, strict=True):
            if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
                optimizer._learning_rate = _Resumed(rate, before)
        try:
            yield
        finally:
            for optimizer, rate in zip(self._optimizers, rates, strict=True):
                optimizer._learning_rate = rate

    def restart(self) -> None:
        """Put the counters back to where they are now; to be traced."""
        for optimizer, first, before in zip(
            self._optimizers, self._first, self._before, strict=True
        ):
            steps = optimizer._iterations.value
            made = steps - first
            # Gradients that are being accumulated are kept, and so is how many they are.
            made -= made % (optimizer.gradient_accumulation_steps or 1)
            before.assign_add(made)
            steps.assign_sub(made)


class _Resumed(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule whose optimizer has made steps before those that it counts."""

    def __init__(self, schedule: Any, before: tf.Variable) -> None:
        super().__init__()
        self._schedule = schedule
        self._before = before

    def __call__(self, step: Any) -> Any:
        return self._schedule(tf.convert_to_tensor(step) + self._before)
