"""A checkpoint in several files: parts, written where their content is, and one that names them.

A part is a sealed file of its own: a name, plain JSON, and arrays. The file that names the parts is
written last, with the length and the seal of each. Until then the checkpoint before it is the
newest. Whatever has a folder's files can write and read them: no matter where it runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from ..common.arrays import Array
from ..errors import CheckpointError
from . import sealed
from .sealed import Sealed, Streamed

_SEAL = hashlib.sha256().digest_size


class SavedPart(NamedTuple):
    """A part as the checkpoint names it."""

    name: str
    nbytes: int
    seal: str
    """The file's last bytes in hexadecimal digits: SHA-256 of all before."""


class PartPlace(NamedTuple):
    """Where the parts of a checkpoint go, and how to know the folder again."""

    folder: str
    """URI."""
    stem: str
    """Of all parts of the checkpoint: a name follows, then ``.tos``."""
    proof: str
    """Name of a file there, which differs from folder to folder."""
    digest: str
    """Of that file; see `digest`."""

    def name(self, own: str) -> str:
        """Return the name of the file of a part."""
        return f"{self.stem}-{own}.tos"


class PartWriter(Protocol):
    """A folder to write to."""

    def write_pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> str:
        """Write a file piece by piece; return its URI. What raises in between leaves none.

        Parameters
        ----------
        name : str
            Without directories.
        pieces : iterable of bytes-like

        Raises
        ------
        CheckpointError
            The file system refused.
        """


class PartReader(Protocol):
    """A folder to read from."""

    uri: str

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Parameters
        ----------
        name : str
            Without directories.

        Raises
        ------
        CheckpointError
            There is none, or the file system refused.
        """


def digest(content: bytes) -> str:
    """Return what tells one file's content from another's."""
    return hashlib.sha256(content).hexdigest()


def write_part(
    folder: PartWriter,
    name: str,
    value: Any = None,
    arrays: Sequence[Array | Streamed] = (),
    check: Callable[[], object] = lambda: None,
) -> SavedPart:
    """Write a part.

    Parameters
    ----------
    folder : PartWriter
    name : str
        Of its file.
    value : object
        Plain JSON.
    arrays : sequence of ndarray or Streamed
    check : callable
        Called again and again meanwhile; what it raises ends the writing.

    Raises
    ------
    CheckpointError
        The file system refused.
    """
    nbytes: int = 0
    last: bytes | memoryview = b""

    def counted() -> Iterator[bytes | memoryview]:
        nonlocal nbytes, last
        for last in sealed.pieces({"part": name}, value, arrays):
            check()
            nbytes += len(last)
            yield last

    folder.write_pieces(name, counted())
    return SavedPart(name, nbytes, bytes(last).hex())


def read_part(folder: PartReader, part: SavedPart) -> Sealed:
    """Return what a part holds.

    Raises
    ------
    CheckpointError
        It is not there, or another one than the checkpoint names.
    """
    data, where = folder.read(part.name), f"{folder.uri}/{part.name}"
    if len(data) != part.nbytes or data[-_SEAL:].hex() != part.seal:
        raise CheckpointError(
            f"{where} is not the part that its checkpoint names: expected {part.nbytes} bytes with "
            f"the seal {part.seal[:12]}..., got {len(data)} bytes with {data[-_SEAL:].hex()[:12]}."
        )
    return sealed.decode(data, where)


def parts_of(value: Any) -> tuple[SavedPart, ...]:
    """Return the parts that a checkpoint names; none if it is whole.

    Parameters
    ----------
    value : object
        Its JSON.

    Raises
    ------
    CheckpointError
        It names something else.
    """
    named = value.get("parts", ()) if isinstance(value, dict) else ()
    try:
        parts = tuple(SavedPart(*entry) for entry in named)
    except TypeError as error:
        raise _nonsense(error) from None
    for part in parts:
        if [type(each) for each in part] != [str, int, str]:
            raise _nonsense(TypeError(f"got {part!r:.80}"))
    return parts


def joined(whole: Sealed, contents: Sequence[Sealed]) -> Sealed:
    """Return a checkpoint with what its parts hold in the place of their names.

    Its ``"parts"`` are then the value of each, and how many of the arrays are its own.
    """
    if not contents:
        return whole
    values = [[part.value, len(part.arrays)] for part in contents]
    arrays = [array for part in contents for array in part.arrays]
    return Sealed(whole.summary, {**whole.value, "parts": values}, [*whole.arrays, *arrays])


def _nonsense(error: Exception) -> CheckpointError:
    return CheckpointError(f"Expected the name, length and seal of each part: {error}.")
