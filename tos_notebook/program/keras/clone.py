"""Copies of compiled Keras models: each training begins with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np

from ...common.arrays import Array
from ...errors import CaptureError
from ...runtime.eager import eagerly


def read_compiled(file: Path) -> Any:
    """Return the model in a ``.keras`` file, compiled as it was when it was written.

    Raises
    ------
    CaptureError
        It cannot be read, such as for layers of the user's own that Keras does not know.
    """
    try:
        with eagerly():
            return keras.models.load_model(file)
    except (ValueError, TypeError) as error:
        raise CaptureError(
            f"The Keras model cannot be read back from its file: {error} Layers, losses and "
            "metrics of your own need @keras.saving.register_keras_serializable(), here and "
            "before the file is read."
        ) from error


def values_of(model: Any) -> list[Array]:
    """Return a copy of all weights."""
    with eagerly():
        return [np.array(weight.value.numpy()) for weight in model.weights]


def set_values(model: Any, values: list[Array]) -> None:
    """Set all weights, as `values_of` returned them.

    Raises
    ------
    CaptureError
        The model has other weights.
    """
    try:
        with eagerly():
            model.set_weights(values)
    except ValueError as error:
        raise CaptureError(
            f"model: expected a function that returns the same model each time; {error}"
        ) from error
