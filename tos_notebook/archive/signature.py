"""What goes into a model and what comes out, without loading TensorFlow."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from ..errors import RemoteProtocolError

SIGNATURE_FILE = "signature.json"
"""Name of the signature inside a served model's archive."""

Shape = tuple[int | None, ...]


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
    """

    entry: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON."""
        ports = {
            "inputs": [astuple(port) for port in self.inputs],
            "outputs": [astuple(port) for port in self.outputs],
        }
        return json.dumps({"entry": self.entry, **ports}).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Signature:
        """Rebuild from `to_json`'s bytes.

        Raises
        ------
        RemoteProtocolError
            The bytes are not a signature.
        """
        try:
            value = json.loads(data)
            return cls(value["entry"], _ports(value["inputs"]), _ports(value["outputs"]))
        except (ValueError, KeyError, TypeError) as error:
            raise RemoteProtocolError(f"Not a model's signature: {error}") from error


def _ports(values: Sequence[tuple[str, str, str | None, Shape | None]]) -> tuple[Port, ...]:
    return tuple(
        Port(key, name, dtype, None if shape is None else tuple(shape))
        for key, name, dtype, shape in values
    )


def read_signature(archive: Path) -> Signature:
    """Return the signature in a served model's archive.

    Raises
    ------
    RemoteProtocolError
        The file is not a served model's archive.
    """
    try:
        with zipfile.ZipFile(archive) as packed:
            return Signature.from_json(packed.read(SIGNATURE_FILE))
    except (zipfile.BadZipFile, KeyError) as error:
        raise RemoteProtocolError(f"Not a served model's archive: {error}") from error
