"""Keras callbacks: their hooks, and what they do to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from ...errors import ConfigError
from ...runtime.eager import eagerly

BATCHWISE = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


class Hooks:
    """Calls the hooks of callbacks, and says what became of the model.

    Parameters
    ----------
    callbacks : sequence of keras.callbacks.Callback
    model : keras.Model
        Compiled.

    Raises
    ------
    ConfigError
        Something else is among them, or one that cannot work here.
    """

    def __init__(self, callbacks: Sequence[Any], model: Any) -> None:
        require_callbacks(callbacks)
        self.callbacks = list(callbacks)
        self._model = model
        self._optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)

    @property
    def batchwise(self) -> bool:
        """Whether any callback has something to do at a batch."""
        return any(map(_is_batchwise, self.callbacks))

    def begin(self, callback: Any, **params: Any) -> None:
        """Hand model and parameters to a callback, as ``fit`` does."""
        with eagerly():
            callback.set_params(params)
            callback.set_model(self._model)

    def call(self, callback: Any, hook: str, *values: Any) -> None:
        """Call one hook."""
        with eagerly():
            getattr(callback, hook)(*values)

    @property
    def stopping(self) -> bool:
        """Whether a callback asked for the end; may be set."""
        return bool(getattr(self._model, "stop_training", False))

    @stopping.setter
    def stopping(self, value: bool) -> None:
        self._model.stop_training = value

    @property
    def learning_rate(self) -> float | None:
        """That of the model's optimizer, in float32; None if it is not a variable. May be set."""
        if not isinstance(getattr(self._optimizer, "_learning_rate", None), keras.Variable):
            return None
        with eagerly():
            # As it is written: 0.1, not 0.10000000149.
            return float(str(self._optimizer.learning_rate.numpy()))

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        with eagerly():
            self._optimizer.learning_rate = value


def require_callbacks(callbacks: Sequence[Any]) -> None:
    """Refuse what is no callback, or one that cannot work here.

    Raises
    ------
    ConfigError
    """
    for callback in callbacks:
        _check(callback)


def _check(callback: Any) -> None:
    if isinstance(callback, keras.callbacks.BackupAndRestore):
        raise ConfigError(
            "BackupAndRestore saves the state of keras.Model.fit, which does not train here. "
            "Instead: TrainingSession(..., checkpoint_dir=URI) and start(..., "
            'checkpoint_every="30s") '
            "save the run, and tos.resume(run.uri) continues it in mid-epoch."
        )
    if isinstance(callback, keras.callbacks.CallbackList) or not isinstance(
        callback, keras.callbacks.Callback
    ):
        raise ConfigError(
            "callbacks: expected Keras callbacks, such as keras.callbacks.EarlyStopping(...); got "
            f"{callback!r} of type {type(callback).__name__}."
        )


def _is_batchwise(callback: Any) -> bool:
    # These have hooks for batches, which do nothing in this mode.
    if "epoch" in (getattr(callback, "save_freq", ""), getattr(callback, "update_freq", "")):
        return False
    base = keras.callbacks.Callback
    hooks = ((getattr(callback, name), getattr(base, name)) for name in BATCHWISE)
    # A LambdaCallback has plain functions.
    return any(getattr(own, "__func__", own) is not default for own, default in hooks)
