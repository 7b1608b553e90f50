"""What a directory of files can do, on any file system; files of this machine."""

from __future__ import annotations

import os
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from ..errors import ConfigError
from .files import is_name

DAY = 86_400.0
"""Seconds after which a file that was not finished is taken for left behind."""

TEMPORARY = ".tmp-"
"""So begins the name of a file that is being written."""

UNFINISHED = re.compile(r"\.tmp-[0-9a-f]{32}")


class GrowingFile(Protocol):
    """A file that is being written."""

    @property
    def shown(self) -> bool:
        """Whether readers see what was flushed before the file is closed."""

    def write(self, data: bytes) -> object:
        """Append.

        Parameters
        ----------
        data : bytes
        """

    def flush(self) -> object:
        """Let readers see what was written, where the file system can."""

    def close(self) -> object:
        """End the file."""


class FileStore(Protocol):
    """A directory of files, each written whole or not at all."""

    uri: str
    """Where the files are, with its scheme."""

    def write(self, name: str, data: bytes | memoryview | Path) -> str:
        """Write a file, replacing one of the same name; return its URI.

        Parameters
        ----------
        name : str
            Without directories.
        data : bytes-like, or Path of a local file

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file system refused.
        """

    def write_new(self, name: str, data: bytes) -> bool:
        """Write a small file unless there is one; return whether it was written.

        Parameters
        ----------
        name : str
            Without directories.
        data : bytes

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file system refused.
        """

    def create(self, name: str) -> GrowingFile:
        """Return a new, empty file to write to.

        Parameters
        ----------
        name : str
            Without directories.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            There is such a file, or the file system refused.
        """

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Parameters
        ----------
        name : str
            Without directories.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file is missing, or the file system refused.
        """

    def head(self, name: str, nbytes: int) -> bytes:
        """Return a file's first bytes, all of them if there are fewer.

        Parameters
        ----------
        name : str
            Without directories.
        nbytes : int
            How many.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file is missing, or the file system refused.
        """

    def copy_out(self, name: str, target: Path) -> None:
        """Copy a file to a local path.

        Parameters
        ----------
        name : str
            Without directories.
        target : Path
            Of the copy.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file is missing, or the file system refused.
        """

    def length(self, name: str) -> int:
        """Return the bytes of a file.

        Parameters
        ----------
        name : str
            Without directories.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file is missing, or the file system refused.
        """

    def exists(self, name: str) -> bool:
        """Tell whether there is a file of this name.

        Parameters
        ----------
        name : str
            Without directories.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file system refused.
        """

    def delete(self, name: str) -> bool:
        """Delete a file; return whether there was one.

        Parameters
        ----------
        name : str
            Without directories.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file system refused.
        """

    def folders(self) -> list[str]:
        """Return the names of the directories in this one, sorted, which `inside` takes."""

    def list(self) -> list[str]:
        """Return the names of the files, sorted."""

    def inside(self, name: str) -> FileStore:
        """Return the directory of this name in this one.

        Parameters
        ----------
        name : str
            Without directories.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file system refused.
        """

    def size(self) -> int:
        """Return the bytes of all files in this directory."""

    def sweep(self, age: float = DAY) -> None:
        """Delete files that were not finished: their processes were killed.

        Parameters
        ----------
        age : float
            Seconds since a file was last written to. Others may be writing younger ones.

        Raises
        ------
        CheckpointError
            The file system refused.
        """

    def failing(self, action: str, name: str) -> AbstractContextManager[None]:
        """Return what turns errors of the file system into a `CheckpointError`.

        Parameters
        ----------
        action : str
            Completes "Cannot".
        name : str
            Of the file.
        """


class PublishingStore(FileStore, Protocol):
    """A directory whose files can be published for every task."""

    def publish(self, name: str, data: bytes | memoryview | Path) -> str:
        """Write a file that every task can `fetch` by its name; return its URI.

        Publishing the same content again does nothing. What another directory has published under
        the same name is taken for the same.

        Parameters
        ----------
        name : str
            Without directories.
        data : bytes-like, or Path of a local file

        Raises
        ------
        ConfigError
            The name was published with another content: executors keep the first.
        CheckpointError
            The file system refused.
        """


class Publications:
    """What a directory has published."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def is_new(self, name: str, digest: str) -> bool:
        """Tell whether a file is still to be published.

        Parameters
        ----------
        name, digest : str

        Raises
        ------
        ConfigError
            The name was published with another content.
        """
        if self._digests.get(name, digest) != digest:
            raise ConfigError(
                f"{name!r} was published with another content; publish under a new name."
            )
        return name not in self._digests

    def note(self, name: str, digest: str) -> None:
        """Note that a file is published."""
        self._digests[name] = digest


def checked_name(name: str) -> str:
    """Return a file's name.

    Raises
    ------
    ConfigError
        It is none.
    """
    if not is_name(name):
        raise ConfigError(
            f"Expected a file name without directories, colon or leading dot, got {name!r}."
        )
    return name


def checked_uri(uri: str | os.PathLike[str]) -> str:
    """Return the place of a folder as text.

    Raises
    ------
    ConfigError
        It is something else.
    """
    if not isinstance(uri, str | os.PathLike):
        raise ConfigError(
            "Expected the place of a folder as text, such as 'hdfs:///runs' or a local path; "
            f"got {uri!r:.80}."
        )
    return os.fspath(uri)


def checksums_of(path: Path) -> Path:
    """Return where Hadoop keeps the checksums of a file of this machine."""
    return path.with_name(f".{path.name}.crc")


def create_new(path: Path, data: bytes) -> bool:
    """Write a file of this machine unless there is one; return whether it was written."""
    # Java looks and then writes; this is one step.
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    sync(path)
    sync(path.parent)
    return True


def sync(path: Path) -> None:
    """Have a file or folder of this machine on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
