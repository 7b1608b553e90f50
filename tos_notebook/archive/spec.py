"""What a worker and the driver must know of a program, or a model, without loading TensorFlow."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from ..common.served import ServedTable
from ..errors import RemoteProtocolError
from ..layout import Layout

SPEC_FILE = "spec.json"
"""Name of the specification inside a program's archive."""

SIGNATURE_FILE = "signature.json"
"""Name of the signature inside a served model's archive."""

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class FeedSpec:
    """One input of a program.

    Parameters
    ----------
    name : str
        The placeholder's name, or a Keras input's.
    dtype : str or None
        None where the program takes the data's own dtype.
    shape : tuple of (int or None), or None
        Without the batch dimension; None for a size that may vary, or for an unknown rank.
    classes : int or None
        Of labels from 0 to classes - 1: how many; None for what is not a label, or unknown.
    part : {"inputs", "labels", "weight", ""}
        What it is of a record; empty where the program does not say.
    """

    name: str
    dtype: str | None
    shape: tuple[int | None, ...] | None
    classes: int | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """A captured program as data: what goes in, what is trained, what comes out.

    Parameters
    ----------
    kind : {"graph", "keras", "module"}
    feeds : tuple of FeedSpec
        In the order of a record's fields.
    layout : Layout
        The parameters that are synchronised.
    outputs : tuple of str
        Names of the values of a training call; the first is the loss if there is one.
    learning_rate : bool
        Whether the learning rate is a variable that can be set while training.
    optimizer_state : tuple of str, optional
        Names of the tensors that the optimizer keeps for the parameters, local to each worker;
        none for plain SGD.
    frozen : str
        Digest of the values that the archive holds and training leaves as they are; empty for
        none.
    gradients : bool
        Whether a worker only computes gradients, and the optimizer makes its step elsewhere.
    scales_loss : bool
        Whether the optimizer scales the loss, and lowers the scale where gradients are not finite.
        It makes no step by those: they are to reach it, and are no error.
    sessions : bool
        Whether the archive holds a TF1-style graph itself, which sessions train on variables that
        are on TensorFlow's servers.
    """

    kind: str
    feeds: tuple[FeedSpec, ...]
    layout: Layout
    outputs: tuple[str, ...]
    learning_rate: bool
    optimizer_state: tuple[str, ...] = ()
    frozen: str = ""
    gradients: bool = False
    scales_loss: bool = False
    sessions: bool = False

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON."""
        return json.dumps(
            {
                "kind": self.kind,
                "feeds": [astuple(feed) for feed in self.feeds],
                "layout": self.layout.to_json(),
                "outputs": self.outputs,
                "learning_rate": self.learning_rate,
                "optimizer_state": self.optimizer_state,
                "frozen": self.frozen,
                "gradients": self.gradients,
                "scales_loss": self.scales_loss,
                "sessions": self.sessions,
            }
        ).encode()

    @classmethod
    def from_json(cls, data: bytes) -> ProgramSpec:
        """Rebuild from `to_json`'s bytes.

        Raises
        ------
        RemoteProtocolError
            The bytes are not a program's specification.
        """
        try:
            value = json.loads(data)
            feeds = tuple(
                FeedSpec(name, dtype, None if shape is None else tuple(shape), *rest)
                for name, dtype, shape, *rest in value["feeds"]
            )
            return cls(
                value["kind"],
                feeds,
                Layout.from_json(value["layout"]),
                tuple(value["outputs"]),
                bool(value["learning_rate"]),
                tuple(value["optimizer_state"]),
                str(value.get("frozen", "")),
                bool(value.get("gradients", False)),
                bool(value.get("scales_loss", False)),
                bool(value.get("sessions", False)),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise RemoteProtocolError(f"Not a program specification: {error}") from error


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a served model.

    Parameters
    ----------
    key : str
        Its name in the SavedModel's signature.
    name : str
        What users call it.
    dtype : str or None
        None where data of any dtype are taken.
    shape : tuple of (int or None), or None
        Without the batch dimension; None for a size that may vary, or for an unknown rank.
    """

    key: str
    name: str
    dtype: str | None
    shape: Shape | None

    @property
    def classes(self) -> None:
        """What goes into a model is not a label; see `tos_notebook.blocks.feeds.Feed`."""
        return None

    @property
    def part(self) -> str:
        """What is saved says nothing of records; see `tos_notebook.blocks.feeds.Feed`."""
        return ""


@dataclass(frozen=True, slots=True)
class Signature:
    """How a served model is called.

    Parameters
    ----------
    entry : str
        Which of the SavedModel's signatures.
    inputs, outputs : tuple of Port
    served : tuple of ServedTable
        Those of which the model needs rows with each batch.
    """

    entry: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    served: tuple[ServedTable, ...] = ()

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON."""
        value = {
            "entry": self.entry,
            "inputs": [astuple(port) for port in self.inputs],
            "outputs": [astuple(port) for port in self.outputs],
            "served": [table.to_json() for table in self.served],
        }
        return json.dumps(value).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Signature:
        """Rebuild from `to_json`'s bytes.

        Raises
        ------
        RemoteProtocolError
            The bytes are no signature.
        """
        try:
            value = json.loads(data)
            ports = _ports(value["inputs"]), _ports(value["outputs"])
            served = tuple(map(ServedTable.from_json, value.get("served", ())))
            return cls(value["entry"], *ports, served)
        except (ValueError, KeyError, TypeError) as error:
            raise RemoteProtocolError(f"Not a model's signature: {error}") from error


def _ports(values: Sequence[tuple[str, str, str | None, Shape | None]]) -> tuple[Port, ...]:
    return tuple(
        Port(key, name, dtype, None if shape is None else tuple(shape))
        for key, name, dtype, shape in values
    )


def read_spec(archive: Path) -> ProgramSpec:
    """Return the specification in a program's archive.

    Raises
    ------
    RemoteProtocolError
        The file is not a program's archive.
    """
    return ProgramSpec.from_json(_packed(archive, SPEC_FILE, "a program's"))


def read_signature(archive: Path) -> Signature:
    """Return the signature in a served model's archive.

    Raises
    ------
    RemoteProtocolError
        The file is no served model's archive.
    """
    return Signature.from_json(_packed(archive, SIGNATURE_FILE, "a served model's"))


def _packed(archive: Path, name: str, whose: str) -> bytes:
    try:
        with zipfile.ZipFile(archive) as packed:
            return packed.read(name)
    except (zipfile.BadZipFile, KeyError) as error:
        raise RemoteProtocolError(f"Not {whose} archive: {error}") from error
