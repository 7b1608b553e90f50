"""A directory of files, through pyarrow: for executors, where Python has no JVM."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, ConfigError
from .files import is_name
from .stores import (
    DAY,
    TEMPORARY,
    UNFINISHED,
    checked_name,
    checked_uri,
    checksums_of,
    create_new,
    sync,
)

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(?:/([^/]*))?(.*)", re.DOTALL)

_STATUS = re.compile(r"google::cloud::Status\((.*?) error_info=.*")
"""How Google's client tells of an error."""

_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of file systems, and pyarrow's."""

_OBJECTS = ("s3", "gs", "gcs")
"""Where a file is there once it is closed, and not before."""

_FLAT = ("gs", "gcs")
"""Where pyarrow lists a folder only if it is an object of its own, which few programs write."""

_QUERIES = dict.fromkeys(_FLAT, "?retry_limit_seconds=60")
"""By scheme. Without credentials, Google's client would try for 15 minutes."""

_ADVICE = {
    "libhdfs": "Install Hadoop and Java on each machine whose Python writes. Set JAVA_HOME, "
    "HADOOP_HOME (or ARROW_LIBHDFS_DIR, the folder of libhdfs.so), and CLASSPATH to what "
    "`hadoop classpath --glob` prints.",
    "OAuth2": "Set GOOGLE_APPLICATION_CREDENTIALS to a file with credentials on each machine whose "
    "Python writes.",
}
"""What a user can do, by a word of what a file system says."""

_CHUNK = 1 << 22


class ArrowStorage:
    """See `FileStore`. A folder is as `Storage` writes it, but for Hadoop's own checksum files.

    A file of this machine is on the disk before it has its name. On HDFS a file is flushed when it
    is closed, and one of the same name is deleted just before.

    Parameters
    ----------
    uri : str
        Where: ``file:``, ``hdfs:``, ``s3:`` or ``s3a:``, ``gs:``, or what else pyarrow knows. A
        bare path is on this machine. Created by the first write.

    Raises
    ------
    ConfigError
        pyarrow is not installed, or has no file system for the URI.
    """

    def __init__(self, uri: str | os.PathLike[str]) -> None:
        given = checked_uri(uri)
        try:
            self.uri, self._scheme, self._fs, self._root = _opened(given)
        except ImportError as error:
            raise ConfigError(
                f"Cannot use {given!r} for files without a JVM: {error}. Install pyarrow."
            ) from None
        except _arrow_errors() as error:
            raise ConfigError(f"Cannot use {given!r} for files: {_reason(error)}") from None

    def write(self, name: str, data: bytes | memoryview | Path) -> str:
        """See `FileStore.write`."""
        return self.write_pieces(name, _pieces(data))

    def write_pieces(self, name: str, pieces: Iterable[bytes | memoryview]) -> str:
        """Write a file piece by piece; return its URI. What raises in between leaves none.

        Parameters
        ----------
        name : str
            Without directories. A file of this name is replaced.
        pieces : iterable of bytes-like

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file system refused.
        """
        target = self._file(name)
        with self.failing("write", name):
            self._make_root()
            # Larger objects can be written than can be moved.
            new = self._scheme in _OBJECTS and not self._is_file(target)
            path = target if new else self._child(f"{TEMPORARY}{uuid.uuid4().hex}")
            try:
                self._put(path, pieces)
                if not new:
                    self._replace(path, target)
            except BaseException:
                with suppress(*_arrow_errors()):
                    self._fs.delete_file(path)
                raise
        return self._uri_of(name)

    def write_new(self, name: str, data: bytes) -> bool:
        """See `FileStore.write_new`; of several at once, one succeeds on this machine only."""
        target = self._file(name)
        with self.failing("create", name):
            self._make_root()
            if self._on_this_machine:
                return create_new(Path(target), data)
            if self._is_file(target):
                return False
        self.write(name, data)
        return True

    def create(self, name: str) -> ArrowFile:
        """See `FileStore.create`."""
        target = self._file(name)
        with self.failing("create", name):
            if self._is_file(target):
                raise FileExistsError("There is such a file.")
            self._make_root()
            return ArrowFile(self._open_new(target), self._on_this_machine)

    def read(self, name: str) -> bytes:
        """See `FileStore.read`."""
        return self.head(name, -1)

    def head(self, name: str, nbytes: int) -> bytes:
        """See `FileStore.head`."""
        source = self._file(name)
        with self.failing("read", name), self._open(source) as file:
            return bytes(file.read(None if nbytes < 0 else nbytes))

    def copy_out(self, name: str, target: Path) -> None:
        """See `FileStore.copy_out`."""
        source = self._file(name)
        with self.failing("read", name), self._open(source) as file, target.open("wb") as copy:
            while piece := file.read(_CHUNK):
                copy.write(piece)

    def length(self, name: str) -> int:
        """See `FileStore.length`."""
        source = self._file(name)
        with self.failing("measure", name):
            if not self._is_file(source):
                raise FileNotFoundError(f"There is no file {source}.")
            return int(self._fs.get_file_info(source).size)

    def exists(self, name: str) -> bool:
        """See `FileStore.exists`."""
        from pyarrow.fs import FileType

        with self.failing("look for", name):
            return bool(self._fs.get_file_info(self._file(name)).type != FileType.NotFound)

    def delete(self, name: str) -> bool:
        """See `FileStore.delete`."""
        target = self._file(name)
        with self.failing("delete", name):
            if not self._is_file(target):
                return False
            self._fs.delete_file(target)
            self._forget_checksums(target)
            return True

    def folders(self) -> list[str]:
        """See `FileStore.folders`."""
        with self.failing("list", "directories"):
            found = self._infos(recursive=self._scheme in _FLAT)
        start = len(self._child(""))
        paths = [info.path[start:] + "/" * (not info.is_file) for info in found]
        return sorted(filter(is_name, {path.partition("/")[0] for path in paths if "/" in path}))

    def list(self) -> list[str]:
        """See `FileStore.list`."""
        with self.failing("list", "files"):
            names = [info.base_name for info in self._infos() if info.is_file]
        return sorted(n for n in names if not n.startswith(TEMPORARY) and not _is_checksum(n))

    def inside(self, name: str) -> ArrowStorage:
        """See `FileStore.inside`."""
        return ArrowStorage(self._uri_of(checked_name(name)))

    def size(self) -> int:
        """See `FileStore.size`."""
        with self.failing("measure", "files"):
            found = self._infos(recursive=True)
            return sum(i.size for i in found if i.is_file and not _is_checksum(i.base_name))

    def sweep(self, age: float = DAY) -> None:
        """See `FileStore.sweep`."""
        with self.failing("delete", "unfinished files"):
            before = (time.time() - age) * 1e9
            for info in self._infos():
                ours = info.is_file and UNFINISHED.fullmatch(info.base_name)
                if ours and (info.mtime_ns or 0) < before:
                    self._fs.delete_file(info.path)

    @contextmanager
    def failing(self, action: str, name: str) -> Iterator[None]:
        """See `FileStore.failing`."""
        try:
            yield
        except _arrow_errors() as error:
            raise CheckpointError(
                f"Cannot {action} {name!r} in {self.uri}: {_reason(error)}"
            ) from None

    @property
    def _on_this_machine(self) -> bool:
        return self._scheme == "file"

    def _file(self, name: str) -> str:
        return self._child(checked_name(name))

    def _child(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _uri_of(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def _is_file(self, path: str) -> bool:
        return bool(self._fs.get_file_info(path).is_file)

    def _make_root(self) -> None:
        if self._scheme not in _OBJECTS:
            self._fs.create_dir(self._root, recursive=True)

    def _infos(self, recursive: bool = False) -> Any:
        from pyarrow.fs import FileSelector

        chosen = FileSelector(self._root, allow_not_found=True, recursive=recursive)
        return self._fs.get_file_info(chosen)

    def _open(self, path: str) -> Any:
        # Not what its name says of compression.
        return self._fs.open_input_stream(path, compression=None)

    def _open_new(self, path: str) -> Any:
        return self._fs.open_output_stream(path, compression=None)

    def _put(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        with self._open_new(path) as file:
            for piece in pieces:
                file.write(piece)
        if self._on_this_machine:
            sync(Path(path))

    def _replace(self, source: str, target: str) -> None:
        self._forget_checksums(target)
        if self._scheme not in (*_OBJECTS, "file") and self._is_file(target):
            # HDFS does not overwrite.
            self._fs.delete_file(target)
        self._fs.move(source, target)
        if self._on_this_machine:
            sync(Path(self._root))

    def _forget_checksums(self, path: str) -> None:
        """Delete those of a file that is replaced: Hadoop would compare what comes with them."""
        if self._on_this_machine:
            checksums_of(Path(path)).unlink(missing_ok=True)


class ArrowFile:
    """See `GrowingFile`.

    Parameters
    ----------
    stream : pyarrow.NativeFile
    shown : bool
    """

    def __init__(self, stream: Any, shown: bool) -> None:
        self._stream = stream
        self.shown = shown

    def write(self, data: bytes) -> None:
        """Append."""
        self._stream.write(data)

    def flush(self) -> None:
        """Let readers see what was written."""
        self._stream.flush()

    def close(self) -> None:
        """End the file."""
        self._stream.close()


def _opened(uri: str) -> tuple[str, str, Any, str]:
    """Return a folder's URI and scheme, its file system, and its path there."""
    from pyarrow import fs

    found = _URI.fullmatch(uri)
    if found is None or found[1] == "file":
        # As Hadoop has it: nothing in a path is escaped.
        path = uri if found is None else f"/{found[3].lstrip('/')}"
        path = str(Path(path).expanduser().absolute())
        return f"file:{path}", "file", fs.LocalFileSystem(), path
    scheme, place, path = found[1].lower(), found[2] or "", found[3]
    scheme = _SCHEMES.get(scheme, scheme)
    system, root = fs.FileSystem.from_uri(f"{scheme}://{place}/{_QUERIES.get(scheme, '')}")
    return uri.rstrip("/"), scheme, system, f"{root.rstrip('/')}/{path.strip('/')}"


def _arrow_errors() -> tuple[type[Exception], ...]:
    """Return what pyarrow raises where a file system refuses."""
    from pyarrow import ArrowException

    return OSError, ArrowException


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    first = _STATUS.sub(r"\1", lines[0]) if lines else type(error).__name__
    found = [told for word, told in _ADVICE.items() if word in first.replace("libjvm", "libhdfs")]
    return " ".join([first.rstrip(".") + "." * bool(found), *found])


def _is_checksum(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")


def _pieces(data: bytes | memoryview | Path) -> Iterator[bytes | memoryview]:
    if not isinstance(data, Path):
        yield data
        return
    with data.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield piece
