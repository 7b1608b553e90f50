"""Published files, as tasks find them, and digests that tell one content from another."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

from ...errors import CheckpointError


def digest_of(data: bytes | memoryview | Path) -> str:
    """Return 32 hexadecimal digits that tell one content from another.

    Parameters
    ----------
    data : bytes-like, or Path of a local file
    """
    if not isinstance(data, Path):
        return hashlib.blake2b(data, digest_size=16).hexdigest()
    with data.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def fetch(name: str) -> Path:
    """Return where a published file is on this executor, inside a task.

    Raises
    ------
    CheckpointError
        Spark did not bring the file.
    """
    from pyspark import SparkFiles

    path = Path(SparkFiles.get(name))
    if not path.is_file():
        raise CheckpointError(
            f"The published file {name!r} is not on this executor; expected it at {path}."
        )
    return path


def archive_name(kind: str, archive: Path) -> str:
    """Return the name to publish an archive under, so that `fetch_archive` knows it again."""
    return f"{kind}-{digest_of(archive)}.zip"


def fetch_archive(name: str) -> Path:
    """Return where an archive is on this executor, inside a task, once it is the driver's.

    Its name came with the task. The file came through a directory that others may write to.

    Parameters
    ----------
    name : str
        As `archive_name` made it.

    Raises
    ------
    CheckpointError
        Spark did not bring the file, or another one.
    """
    path = fetch(name)
    expected, found = Path(name).stem.rpartition("-")[2], digest_of(path)
    if found != expected:
        raise CheckpointError(
            f"Executor host {socket.gethostname()}: expected program {name!r} with the digest "
            f"{expected}, as the driver wrote it; got a file with the digest {found}. It was not "
            "loaded. See who can write to the session's directory, and whether Spark's own "
            "connections are protected. Then start a new Spark application."
        )
    return path


def executor_folder() -> Path:
    """Return a folder of this executor's host that Spark removes with the application.

    In ``local`` mode it is the driver's own.
    """
    from pyspark import SparkFiles

    return Path(SparkFiles.getRootDirectory())
