"""The files of one run: checkpoints by number, history piece by piece, data and program."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..errors import CheckpointError
from ..params import Array
from . import format as files
from .format import Sealed

logger = logging.getLogger(__name__)

PROGRAM = "program.zip"
DATA = "data.tos"

_CHECKPOINT = re.compile(r"checkpoint-(\d{8})\.tos")


class Storage(Protocol):
    """What is needed of `cluster.storage.Storage`: files that are written whole or not at all."""

    @property
    def uri(self) -> str:
        """Where they are."""

    def write(self, name: str, data: Path) -> str:
        """Write a local file's content."""

    def read(self, name: str) -> bytes:
        """Return a file's content."""

    def delete(self, name: str) -> bool:
        """Delete a file."""

    def list(self) -> list[str]:
        """Return the names of the files, sorted."""


class Found(NamedTuple):
    """A checkpoint that is as it was written."""

    number: int
    name: str
    sealed: Sealed


def checkpoint(number: int) -> str:
    """Return the name of a checkpoint's file."""
    return f"checkpoint-{number:08d}.tos"


def history(number: int) -> str:
    """Return the name of the file of the events before a checkpoint, and after the last."""
    return f"history-{number:08d}.tos"


def number_of(name: str) -> int | None:
    """Return a checkpoint's number from its file's name; None if it is another file's."""
    match = _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else None


class Folder:
    """The folder of one run.

    Parameters
    ----------
    storage : Storage
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints, ascending, whether they can be read or not."""
        found = map(number_of, self.storage.list())
        return sorted(number for number in found if number is not None)

    def write(
        self, name: str, summary: dict[str, Any], value: Any = None, arrays: Sequence[Array] = ()
    ) -> int:
        """Write a sealed file; return its size in bytes."""
        with tempfile.TemporaryDirectory(prefix="tos-checkpoint-") as directory:
            local = Path(directory, name)
            files.write(local, summary, value, arrays)
            size = local.stat().st_size
            self.storage.write(name, local)
        return size

    def read(self, name: str) -> Sealed:
        """Return what a sealed file holds.

        Raises
        ------
        CheckpointError
            It is not there, or not as it was written.
        """
        return files.decode(self.storage.read(name), f"{self.storage.uri}/{name}")

    def last(self) -> Found:
        """Return the newest checkpoint that is as it was written; others are passed over.

        Raises
        ------
        CheckpointError
            There is none.
        """
        problems = []
        for number in reversed(self.numbers()):
            name = checkpoint(number)
            try:
                return Found(number, name, self.read(name))
            except CheckpointError as error:
                logger.warning("%s", error)
                problems.append(str(error))
        raise CheckpointError(
            f"There is no checkpoint in {self.storage.uri} to go on from"
            + (f": {' '.join(problems)}" if problems else ".")
        )

    def prune(self, keep: int) -> None:
        """Delete all checkpoints but the last `keep`."""
        for number in self.numbers()[:-keep]:
            self.storage.delete(checkpoint(number))
