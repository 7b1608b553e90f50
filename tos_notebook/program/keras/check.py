"""Whether a Keras model is ready to be captured."""

from __future__ import annotations

from typing import Any

import keras

from ...errors import CaptureError, UnsupportedProgram
from .structure import is_built


def check_model(model: Any) -> None:
    """Refuse a model that cannot be trained elsewhere as it is.

    Parameters
    ----------
    model : keras.Model

    Raises
    ------
    CaptureError
        It is not built or not compiled, or Keras runs on another backend.
    UnsupportedProgram
        It has nothing to train, or needs this process to train it.
    """
    if keras.backend.backend() != "tensorflow":
        raise CaptureError(
            f"Keras runs on backend {keras.backend.backend()!r}; expected 'tensorflow'. Set "
            "KERAS_BACKEND=tensorflow before importing keras."
        )
    if not is_built(model):
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
            f"Model {model.name!r} is compiled with run_eagerly=True: its Python code would have "
            "to run on the executors. Compile it without."
        )
