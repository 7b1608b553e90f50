"""What names files: URIs and paths, published files as tasks find them, temporary folders."""

from __future__ import annotations

import hashlib
import re
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from ..common import temporary
from ..errors import CheckpointError, ConfigError, DataError
from .calls import java_errors, reason
from .remote.context import RemoteContext
from .remote.finding import find_remote_files, read_remote_files

if TYPE_CHECKING:
    from pyspark import SparkContext

_SCHEME = re.compile(r"file:|[A-Za-z][A-Za-z0-9+.-]*:/")

_temporary: dict[str, str] = {}
"""By application: the URI of its directory."""


def default_fs(sc: SparkContext) -> str:
    """Return Hadoop's default file system, without a slash at its end."""
    found = str(sc._jsc.hadoopConfiguration().get("fs.defaultFS") or "file:///")
    return found[:-1] if found.startswith("file:///") else found.rstrip("/")


def hadoop_path(sc: SparkContext, uri: str) -> Any:
    """Return a Hadoop Path; a bare path is on Spark's default file system, as for ``spark.read``.

    Where that is this machine, it may begin with ``~`` and is relative to Python's folder.
    """
    hadoop = sc._jvm.org.apache.hadoop.fs
    default = hadoop.FileSystem.getDefaultUri(sc._jsc.hadoopConfiguration()).getScheme()
    if not _SCHEME.match(uri) and default == "file":
        # Not Path.as_uri, which would escape the characters of a glob.
        uri = f"file://{Path(uri).expanduser().absolute()}"
    return hadoop.Path(uri)


def is_local(uri: str) -> bool:
    """Whether a URI, or bare path, names files of this machine."""
    return "://" not in uri or uri.startswith("file:")


def local_path(uri: str) -> Path:
    """Return the path of a local URI, or of a bare path."""
    return (
        Path(url2pathname(urlparse(uri).path) if uri.startswith("file:") else uri)
        .expanduser()
        .absolute()
    )


def is_name(name: str) -> bool:
    """Tell whether a file or a folder of this package may have this name."""
    return bool(name) and not name.startswith(".") and not set(name) & set("/\\:")


def find_files(sc: SparkContext, pattern: str) -> list[str]:
    """Return the URIs of the files at a path: a file, a directory or a glob, on any file system.

    Parameters
    ----------
    sc : SparkContext
    pattern : str
        A Hadoop URI, or a path on Spark's default file system; ``*``, ``?``, ``[ab]`` and
        ``{a,b}`` match.

    Returns
    -------
    list of str
        Sorted; empty if nothing matches. Hidden files (``_x``, ``.x``) are left out.

    Raises
    ------
    ConfigError
        The file system cannot be used.
    """
    if isinstance(sc, RemoteContext):
        return find_remote_files(sc, pattern)
    try:
        path = hadoop_path(sc, pattern)
        fs = path.getFileSystem(sc._jsc.hadoopConfiguration())
        found = list(fs.globStatus(path) or [])
        inside = [list(fs.listStatus(s.getPath())) for s in found if s.isDirectory()]
    except java_errors() as error:
        raise ConfigError(f"Cannot look for files at {pattern!r}: {reason(error)}") from None
    files = [status.getPath() for status in sum(inside, found) if status.isFile()]
    return sorted(str(f.toString()) for f in files if not f.getName().startswith(("_", ".")))


def list_files(sc: Any, uri: str) -> list[str]:
    """Return what `find_files` finds, which must be something.

    Parameters
    ----------
    sc : SparkContext
    uri : str
        Such as ``hdfs:///data/train`` or ``s3a://bucket/train-*.tfrecord``.

    Raises
    ------
    DataError
        There is no such file, or its file system cannot be read.
    """
    try:
        found = find_files(sc, uri)
    except ConfigError as error:
        raise DataError(f"Expected files at {uri}, but they cannot be read. {error}") from None
    if not found:
        raise DataError(f"Expected files at {uri}, found none.")
    return found


def whole_files(sc: Any, parts: Sequence[Sequence[str]]) -> Any:
    """Return an RDD of the names and contents of files, the given ones in each partition.

    Parameters
    ----------
    sc : SparkContext
    parts : sequence of sequence of str
        The files' URIs, as `find_files` returns them.
    """
    if isinstance(sc, RemoteContext):
        return read_remote_files(sc, parts)
    # A union, so that which files are whose depends on their names alone.
    return sc.union([sc.binaryFiles(",".join(part)).coalesce(1) for part in parts])


def temporary_directory(sc: SparkContext) -> str:
    """Return the URI of this process's directory for the files of one Spark application.

    It lasts as long as the process: an executor that starts later fetches every file that
    was published, also those of sessions that have been closed.
    """
    application = sc.applicationId
    if application not in _temporary:
        folder = tempfile.mkdtemp(prefix=f"{application}-", dir=temporary.folder())
        _temporary[application] = f"file://{folder}"
    return _temporary[application]


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


def driver_folder(sc: Any) -> Path:
    """Return the folder of this process that `executor_folder` may be, in ``local`` mode."""
    return temporary.folder() if isinstance(sc, RemoteContext) else executor_folder()


def executor_folder() -> Path:
    """Return a folder of this executor's host that Spark removes with the application.

    In ``local`` mode it is the driver's own.
    """
    from pyspark import SparkFiles

    return Path(SparkFiles.getRootDirectory())
