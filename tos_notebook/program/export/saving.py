"""Write a user's own model or session in TensorFlow's formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from ...errors import UnsupportedProgram
from ...runtime.eager import eagerly, quiet

CHECKPOINT = "checkpoint"
"""Name of the files of a TensorFlow checkpoint, without their endings."""


def keras_file(model: Any, target: Path) -> None:
    """Write one ``.keras`` file: architecture, weights and how it was compiled.

    Raises
    ------
    UnsupportedProgram
        Something in it does not say how it is made.
    """
    try:
        with eagerly():
            model.save(target)
    except NotImplementedError as error:
        kind = type(model).__name__
        raise UnsupportedProgram(
            f"{kind} {model.name!r} cannot be written as a .keras file: a custom class needs "
            "get_config if its __init__ takes more than numbers and texts. Add it, save the "
            "models that it consists of, or save the weights as a checkpoint or .npz. Keras says: "
            f"{str(error).strip().splitlines()[0]}"
        ) from error


def saved_model(model: Any, target: Path) -> None:
    """Write a SavedModel folder, whose ``serve`` takes what the model takes."""
    with eagerly(), quiet("tensorflow", "absl"):
        model.export(str(target), verbose=False)


def saved_module(module: Any, target: Path) -> None:
    """Write a SavedModel folder of a `tf.Module`, with the functions that it has."""
    with eagerly(), quiet("tensorflow", "absl"):
        tf.saved_model.save(module, str(target))


def model_checkpoint(model: Any, target: Path) -> None:
    """Write a folder for ``tf.train.Checkpoint(model=model).restore(folder + "/checkpoint")``."""
    target.mkdir()
    with eagerly():
        tf.train.Checkpoint(model=model).write(str(target / CHECKPOINT))


def session_checkpoint(session: Any, variables: Any, target: Path) -> None:
    """Write a folder for ``tf.compat.v1.train.Saver(variables).restore(session, path)``."""
    target.mkdir()
    with session.graph.as_default():
        saver = tf.compat.v1.train.Saver(list(variables))
        saver.save(
            session, str(target / CHECKPOINT), latest_filename="latest", write_meta_graph=False
        )
