"""What a Spark task needs to train a run by itself: a model, data and options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cluster.remote.joining import INSTEAD
from ...common import temporary
from ...errors import ConfigError, UnsupportedProgram

if TYPE_CHECKING:
    from ...program.export.base import Program

PLACE = "With its server in a Spark task"
"""Begins what is refused."""

REFUSED = {
    "callbacks": "would change objects of this process",
    "mlflow": "logs from this process",
    "keep_best": "keeps parameters in this process",
    "tensorboard": "writes files of this machine",
}
"""Options that need the server in the notebook's process, and why."""


@dataclass(frozen=True, slots=True, repr=False)
class Model:
    """A Keras model in a file, and how it was captured."""

    file: bytes
    """As ``model.save`` writes it."""
    own: Mapping[str, Any]
    """The user's classes and functions, by name."""
    captured: Mapping[str, Any]
    """Options of `tos_notebook.capture`."""


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """A run that is about to be made."""

    model: Model
    data: Any
    session: Mapping[str, Any]
    """Options of `TrainingSession`."""
    options: Mapping[str, Any]
    """Options of its `start`, or of `resume`."""
    uri: str | None = None
    """The folder of a run that continues."""


def packed_model(program: Program) -> Model:
    """Return the model of a program.

    Raises
    ------
    UnsupportedProgram
        It is no Keras model, or cannot be written to a file.
    """
    if program.kind != "keras" or program.model is None:
        raise UnsupportedProgram(
            f"{PLACE} a run trains compiled Keras models, got {program.summary}. {INSTEAD}"
        )
    if program.layout.served:
        raise UnsupportedProgram(f"{PLACE} a run has no served embeddings. {INSTEAD}")
    from ...program.export.saving import keras_file
    from ...program.keras.own_objects import own_kinds

    with temporary.directory("tos-model-") as folder:
        path = Path(folder, "model.keras")
        keras_file(program.model, path)
        captured = program.captured  # type: ignore[attr-defined]
        return Model(path.read_bytes(), own_kinds(program.model), captured)


def loaded(model: Model) -> Program:
    """Return the program of a model, in another process."""
    from ...program.capture import capture
    from ...program.keras import own_objects

    with temporary.directory("tos-model-") as folder:
        path = Path(folder, "model.keras")
        path.write_bytes(model.file)
        made = own_objects.loaded(path, model.own)
    return capture(made, **model.captured)


def options_for_task(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return those options of a run that its task is given; sinks and waits stay here.

    Raises
    ------
    ConfigError
        One of them needs the server in this process.
    """
    for name, why in REFUSED.items():
        if given.get(name):
            raise ConfigError(
                f"{name}: expected none, because the server is in a Spark task and {name} {why}. "
                f"Leave it out. {INSTEAD}"
            )
    stays = ("data", "sinks", "wait", "verbose")
    found = {name: value for name, value in given.items() if name not in stays}
    if isinstance(found.get("checkpoint_dir"), os.PathLike):
        found["checkpoint_dir"] = os.fspath(found["checkpoint_dir"])
    return found
