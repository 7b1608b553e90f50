"""What a run leaves to take away: its model in a file of any usual format."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...cluster.files import is_local, local_path
from ...cluster.opening import open_store
from ...common import temporary
from ...common.arrays import Array
from ...common.checks import one_of
from ...errors import ConfigError
from ...program.export.base import SAVED, Program
from .held_model import HeldModel

FORMATS = (*SAVED, "numpy")

ENDINGS = {".keras": "keras", ".npz": "numpy"}
"""Names that say the format."""


def save(
    sc: Any,
    model: HeldModel,
    parameters: Mapping[str, Array],
    target: str | os.PathLike[str],
    format: str | None,
) -> str:
    """Write parameters or model; see `tos_notebook.Run.save`."""
    place = os.fspath(target)
    chosen = _format(place, format)
    with temporary.directory("tos-save-") as folder:
        if chosen == "numpy":
            made = Path(folder, "numpy.npz")
            np.savez(made, **parameters, **_rows(model))  # type: ignore[arg-type]
        else:
            made = Path(folder, _name(place))
            with model.present() as program:
                _refuse_unwritable(program, chosen)
                program.save(chosen, made)
        return deliver(sc, made, place)


def _format(place: str, format: str | None) -> str:
    ending = Path(place).suffix
    if format is None and ending not in ENDINGS:
        raise ConfigError(
            f"format: expected one of {', '.join(FORMATS)} with a name such as {place!r}; a name "
            f"that ends in {' or '.join(ENDINGS)} says it by itself."
        )
    chosen = ENDINGS[ending] if format is None else one_of("format", format, FORMATS)
    if chosen == "keras" and ending != ".keras":
        raise ConfigError(f"Expected a name that ends in .keras, got {place!r}.")
    return chosen


def _rows(model: HeldModel) -> Mapping[str, Array]:
    """Return ids and rows of served tables, by the names of their layers."""
    if model.served is None:
        return {}
    model.served.files()
    return model.served.rows.named()  # type: ignore[no-any-return]


def _refuse_unwritable(program: Program, chosen: str) -> None:
    if chosen in program.formats:
        return
    if program.layout.served:
        raise ConfigError(
            f"format={chosen!r}: expected 'numpy' for a model with ServedEmbedding "
            f"{program.layout.served[0].name!r}, whose rows no model file holds. Write a .npz file "
            "with ids and rows of each table, or continue from a checkpoint with tos.resume."
        )
    usable = ", ".join([*program.formats, "numpy"])
    raise ConfigError(
        f"format={chosen!r}: expected one that this program can be written in, {usable}. "
        "keras and savedmodel need a Keras model. A resumed run has one only if you pass it: "
        "tos.resume(uri, program=model)."
    )


def _name(place: str) -> str:
    name = place.rstrip("/").rsplit("/", 1)[-1]
    if not name:
        raise ConfigError(f"Expected the name of a file or folder, got {place!r}.")
    return name


def deliver(sc: Any, made: Path, place: str) -> str:
    """Move a file or folder to where it was wanted, instead of what may be there.

    Parameters
    ----------
    sc : SparkContext
        Not used for a local path, which needs no Spark.
    made : Path
    place : str
        A Hadoop URI or a local path.

    Returns
    -------
    str
        The URI, or the absolute path.
    """
    if not is_local(place):
        parent, _, name = place.rstrip("/").rpartition("/")
        return open_store(sc, parent).write(name, made)
    target = local_path(place)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Next to the target first: only within one file system is a rename a single step.
    with tempfile.TemporaryDirectory(prefix=".tos-save-", dir=target.parent) as folder:
        near = shutil.move(made, Path(folder, "new"))
        if target.is_dir():
            target.rename(Path(folder, "old"))
        Path(near).replace(target)
    return str(target)
