"""Where an estimator gets its model from: a new one, and the same, for each fit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..common import temporary
from ..common.arrays import Array
from ..errors import CaptureError, ConfigError
from ..program.kinds import is_keras

_making = threading.Lock()
"""Models are made one at a time: a function may set Keras's random seed, which is the process's."""


class ModelSource:
    """Makes models that begin with the same weights.

    Parameters
    ----------
    model : keras.Model or callable
        A built and compiled model, which is copied as it is now, with its weights and its
        optimizer's state. Or a function without parameters that returns such a model: it is
        called for each fit, and the weights that it made first are those of all fits.

    Raises
    ------
    CaptureError
        A model without weights, or that is not compiled.
    ConfigError
        It is neither.
    """

    def __init__(self, model: Any) -> None:
        from ..program.capture import capture
        from ..program.export.saving import keras_file
        from ..program.keras.own_objects import own_objects

        self._make: Callable[[], Any] | None = None
        self._first: list[Array] | None = None
        self._own: dict[str, Any] = {}
        if is_keras(model):
            self._name = str(model.name)
            self._folder = temporary.directory("tos-ml-")
            self._file = Path(self._folder.name, "model.keras")
            # Says what is wrong with it now, not when it is fitted; and builds the optimizer,
            # whose state Keras would not find in the file otherwise.
            capture(model)
            keras_file(model, self._file)
            self._own = own_objects(model)
        elif callable(model):
            self._make = model
            self._name = getattr(model, "__name__", type(model).__name__)
        else:
            raise ConfigError(
                "model: expected a compiled Keras model, or a function that returns one, got "
                f"{model!r}."
            )

    def fresh(self) -> Any:
        """Return a model of its own, built and compiled, with the first weights.

        Raises
        ------
        CaptureError
            It cannot be copied, or the function returned something else or another model.
        """
        from ..program.keras.serving import read_compiled

        with _making:
            if self._make is not None:
                return self._made(self._make)
            return read_compiled(self._file, self._own)

    def _made(self, make: Callable[[], Any]) -> Any:
        from ..program.keras.serving import set_values, values_of
        from ..program.keras.structure import is_built

        model = make()
        if not is_keras(model) or not is_built(model) or not model.compiled:
            raise CaptureError(
                f"model: expected {self._name}() to return a compiled Keras model with weights, "
                f"got {model!r}. Give it a keras.Input, and call model.compile(optimizer, loss)."
            )
        if self._first is None:
            self._first = values_of(model)
        else:
            set_values(model, self._first)
        return model

    def __repr__(self) -> str:
        return f"{self._name}()" if self._make is not None else f"<Keras model {self._name!r}>"


def as_model_source(value: Any) -> ModelSource:
    """Return the source of a model; errors are those of `ModelSource`."""
    return value if isinstance(value, ModelSource) else ModelSource(value)
