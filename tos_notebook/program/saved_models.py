"""Saved models, which predict without a session."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..archive.spec import Port, Signature
from ..blocks.block import ColumnSpec
from ..blocks.feeds import Feed
from ..cluster.executors import active_context
from ..cluster.files import is_local, local_path
from ..cluster.opening import open_store
from ..common import temporary
from ..errors import CaptureError, ConnectError
from ..inference.predictor import Predictor
from ..inference.servable import HeldRows
from .kinds import is_keras

ENDING = ".keras"


class SavedModel(Predictor):
    """A SavedModel; `load_model` makes it.

    Parameters
    ----------
    folder : TemporaryDirectory
        Holds its archive, and lasts as long as this object.
    signature : Signature
    """

    def __init__(self, folder: TemporaryDirectory[str], signature: Signature) -> None:
        self._folder = folder
        self._signature = signature

    @property
    def inputs(self) -> tuple[Port, ...]:
        """See `Predictor.inputs`."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What it returns."""
        return self._signature.outputs

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Predictor.serve`: what was saved says what it takes."""
        shutil.copyfile(_archive(self._folder.name), target)

    def __repr__(self) -> str:
        return f"<SavedModel: {_text(self.inputs)} -> {_text(self.outputs)}>"


class KerasModel(Predictor):
    """A Keras model, which need not be compiled; `load_model` makes it.

    Parameters
    ----------
    model : keras.Model
    """

    def __init__(self, model: Any) -> None:
        from .keras.structure import inputs_of, leaves

        self.model = model
        self._struct = inputs_of(model)
        self._inputs = tuple(leaves(self._struct))

    @property
    def inputs(self) -> tuple[Feed, ...]:
        """See `Predictor.inputs`."""
        return self._inputs

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """See `Predictor.serve`."""
        from .keras.serving import serve_keras

        serve_keras(self.model, self._struct, columns, target)

    @property
    def served(self) -> HeldRows | None:
        """See `Servable.served`."""
        from .keras.served import ServedLayers

        return ServedLayers(self.model).held

    def __repr__(self) -> str:
        return f"<Keras model {self.model.name!r}: {_text(self.inputs)}>"


def load_model(
    source: Any, *, signature: str | None = None, tags: Collection[str] = ()
) -> SavedModel | KerasModel:
    """Return a saved model, to predict with.

    Parameters
    ----------
    source : str, path-like or keras.Model
        A ``.keras`` file, or the folder of a SavedModel, at a local path or any Hadoop URI; what
        `Run.save` writes, and others. Or a model in memory.
    signature : str, optional
        Which of a SavedModel's signatures; by default the only one, or ``serving_default``.
    tags : collection of str
        Those of the graph to take, where a SavedModel has several graphs.

    Returns
    -------
    SavedModel or KerasModel
        Its `predict` is that of a program.

    Raises
    ------
    CaptureError
        It is neither, or has no such signature or graph.
    ConnectError
        The URI is not local, and Spark does not run to read it.
    CheckpointError
        The file system refused.

    Examples
    --------
    >>> model = tos.load_model("hdfs:///models/digits.keras")                 # doctest: +SKIP
    >>> model.predict(df, "pixels")                                           # doctest: +SKIP
    """
    if not isinstance(source, str | Path):
        return _at_hand(source)
    place = str(source).rstrip("/")
    with temporary.directory("tos-load-") as folder:
        found = _fetched(place, Path(folder))
        if not found.exists():
            raise CaptureError(f"Expected a model at {place}, found none.")
        if place.endswith(ENDING):
            if signature is not None:
                raise CaptureError(f"signature: for a SavedModel only, got {place}. Leave it out.")
            from .keras.serving import read_keras

            return KerasModel(read_keras(found))
        from .export.serving import adopt

        kept: TemporaryDirectory[str] = temporary.directory("tos-model-")
        return SavedModel(kept, adopt(found, signature, _archive(kept.name), tags))


def _at_hand(model: Any) -> KerasModel:
    from .keras.structure import is_built

    if not is_keras(model) or not is_built(model):
        raise CaptureError(
            "Expected the path or URI of a .keras file or a SavedModel, or a Keras model with "
            f"weights; got {model!r}."
        )
    return KerasModel(model)


def _archive(folder: str) -> Path:
    return Path(folder, "model.zip")


def _fetched(place: str, folder: Path) -> Path:
    """Return where the file or folder is locally."""
    if is_local(place):
        return local_path(place)
    sc = active_context()
    if sc is None:
        raise ConnectError(f"Only Spark can read {place!r}: call tos.connect() first.")
    parent, _, name = place.rpartition("/")
    open_store(sc, parent).copy_out(name, folder / name)
    return folder / name


def _text(feeds: Sequence[Feed]) -> str:
    return ", ".join(f"{feed.name} {feed.dtype} {feed.shape}" for feed in feeds)
