"""A directory of files, through the Hadoop FileSystem of the JVM."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common import temporary
from ..errors import CheckpointError, ConfigError
from .calls import java_errors, reason
from .files import digest_of, hadoop_path, is_name
from .stores import (
    DAY,
    TEMPORARY,
    UNFINISHED,
    Publications,
    checked_name,
    checked_uri,
    checksums_of,
    create_new,
    sync,
)

if TYPE_CHECKING:
    from pyspark import SparkContext


class Storage:
    """See `FileStore`; this one can write folders, and publish files for every task.

    Parameters
    ----------
    sc : SparkContext
    uri : str
        Where: any Hadoop URI (``hdfs:``, ``s3a:``, ``file:``); a bare path is on Spark's default
        file system. Created by the first write.

    Attributes
    ----------
    uri : str
        Where the files are, with its scheme.

    Raises
    ------
    ConfigError
        No file system answers to the URI, or the URI is malformed.
    """

    def __init__(self, sc: SparkContext, uri: str | os.PathLike[str]) -> None:
        uri = checked_uri(uri)
        self._sc = sc
        self._hadoop = sc._jvm.org.apache.hadoop
        self._conf = sc._jsc.hadoopConfiguration()
        self._published = Publications()
        self._transfer = self._hadoop.io.IOUtils.copyBytes
        try:
            self._root = hadoop_path(sc, uri)
            self._fs = self._root.getFileSystem(self._conf)
            self.uri = str(self._fs.makeQualified(self._root).toString())
        except java_errors() as error:
            raise ConfigError(f"Cannot use {uri!r} for files: {reason(error)}") from None

    def write(self, name: str, data: bytes | memoryview | Path) -> str:
        """Write a file, replacing one of the same name in a single step.

        Parameters
        ----------
        name : str
            Without directories.
        data : bytes-like, or Path of a local file or folder
            A folder that it replaces is deleted first.

        What is written is on the disk before it has its name: a machine that loses its power has
        the old file or the new one. Object stores do so by themselves.

        Returns
        -------
        str
            The file's URI.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file system refused.
        """
        target = self._file(name)
        unfinished = self._child(f"{TEMPORARY}{uuid.uuid4().hex}")
        with self.failing("write", name), temporary.directory("tos-file-") as directory:
            local = data if isinstance(data, Path) else Path(directory, "data")
            if not isinstance(data, Path):
                local.write_bytes(data)
            self._fs.mkdirs(self._root)
            try:
                self._copy(local, unfinished)
                if local.is_dir():
                    self._fs.delete(target, True)
                self._replace(unfinished, target)
                self._sync(self._root)
            finally:
                self._fs.delete(unfinished, True)
        return str(target.toString())

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises
        ------
        ConfigError
            A name that is none.
        CheckpointError
            The file is missing, or the file system refused.
        """
        with temporary.directory("tos-file-") as directory:
            local = Path(directory, "data")
            self.copy_out(name, local)
            return local.read_bytes()

    def copy_out(self, name: str, target: Path) -> None:
        """Copy a file, or a folder with all that is in it, to a local path.

        Raises
        ------
        CheckpointError
            The file is missing, or the file system refused.
        """
        source = self._file(name)
        with self.failing("read", name):
            # Raw: without a checksum file beside the copy.
            local = self._hadoop.fs.Path(target.as_uri())
            self._fs.copyToLocalFile(False, source, local, True)

    def create(self, name: str) -> JavaFile:
        """Return a new, empty file, which is the caller's to close.

        Raises
        ------
        CheckpointError
            The file system refused, or there is such a file.
        """
        with self.failing("create", name):
            return JavaFile(self._fs.create(self._file(name), False))

    def write_new(self, name: str, data: bytes) -> bool:
        """Write a small file unless there is one; of several who try at once, one succeeds.

        Returns
        -------
        bool
            Whether it was written.

        Raises
        ------
        CheckpointError
            The file system refused.
        """
        target = self._file(name)
        with self.failing("create", name):
            self._fs.mkdirs(self._root)
            if self._on_this_machine:
                return create_new(self._path_of(target), data)
            try:
                file = self._fs.create(target, False)
            except java_errors():
                # Each file system has its own error for this.
                if self._fs.exists(target):
                    return False
                raise
            with _synced(file):
                file.write(data)
            return True

    def head(self, name: str, nbytes: int) -> bytes:
        """Return a file's first bytes, all of them if there are fewer; raises what `read` does."""
        source = self._file(name)
        with self.failing("read", name), closing(self._fs.open(source)) as file:
            return bytes(file.readNBytes(nbytes))

    def length(self, name: str) -> int:
        """Return the bytes of a file; raises what `read` does."""
        source = self._file(name)
        with self.failing("measure", name):
            return int(self._fs.getFileStatus(source).getLen())

    def inside(self, name: str) -> Storage:
        """Return the directory of this name in this one."""
        self._file(name)
        return Storage(self._sc, f"{self.uri.rstrip('/')}/{name}")

    def folders(self) -> list[str]:
        """Return the names of the directories in this one, sorted, which `inside` takes."""
        with self.failing("list", "directories"):
            names = [s.getPath().getName() for s in self._statuses() if s.isDirectory()]
        return sorted(filter(is_name, names))

    def size(self) -> int:
        """Return the bytes of all files in this directory."""
        with self.failing("measure", "files"):
            return int(self._fs.getContentSummary(self._root).getLength())

    def exists(self, name: str) -> bool:
        """Tell whether there is a file of this name."""
        with self.failing("look for", name):
            return bool(self._fs.exists(self._file(name)))

    def delete(self, name: str) -> bool:
        """Delete a file; return whether there was one."""
        with self.failing("delete", name):
            return bool(self._fs.delete(self._file(name), False))

    def list(self) -> list[str]:
        """Return the names of the files, sorted."""
        with self.failing("list", "files"):
            names = [s.getPath().getName() for s in self._statuses() if s.isFile()]
        return sorted(name for name in names if not name.startswith(TEMPORARY))

    def sweep(self, age: float = DAY) -> None:
        """Delete what was being written, but not for some time: its process was killed.

        Parameters
        ----------
        age : float
            Seconds since a file was last written to. Others may be writing younger ones.

        Raises
        ------
        CheckpointError
            The file system refused.
        """
        with self.failing("delete", "unfinished files"):
            before = (time.time() - age) * 1000
            for status in self._statuses():
                path = status.getPath()
                ours = status.isFile() and UNFINISHED.fullmatch(path.getName())
                if ours and status.getModificationTime() < before:
                    self._fs.delete(path, False)

    def publish(self, name: str, data: bytes | memoryview | Path) -> str:
        """See `PublishingStore.publish`."""
        digest = digest_of(data)
        if self._published.is_new(name, digest):
            uri = self.write(name, data)
            with self.failing("publish", name):
                # Of one name Spark serves the file of one directory, and refuses another.
                if not any(file.endswith(f"/{name}") for file in self._sc.listFiles):
                    self._sc.addFile(uri)
            self._published.note(name, digest)
        return str(self._file(name).toString())

    def _file(self, name: str) -> Any:
        return self._child(checked_name(name))

    def _child(self, name: str) -> Any:
        return self._fs.makeQualified(self._hadoop.fs.Path(self._root, name))

    def _statuses(self) -> Any:
        return self._fs.listStatus(self._root) if self._fs.exists(self._root) else []

    def _copy(self, source: Path, target: Any) -> None:
        """Copy a local file or folder, and have it on the disk."""
        if source.is_dir():
            self._fs.mkdirs(target)
            for inside in source.iterdir():
                self._copy(inside, self._hadoop.fs.Path(target, inside.name))
        else:
            given = self._sc._jvm.java.io.FileInputStream(str(source))
            with closing(given), _synced(self._fs.create(target, True)) as file:
                self._transfer(given, file, self._conf, False)
        self._sync(target)

    def _sync(self, target: Any) -> None:
        """Have a file or folder of this machine on the disk; others are synced as they are written.

        Java's local file system says that it cannot.
        """
        if self._on_this_machine:
            path = self._path_of(target)
            for one in filter(Path.exists, (path, checksums_of(path))):
                sync(one)

    @property
    def _on_this_machine(self) -> bool:
        return bool(self._fs.getUri().getScheme() == "file")

    @staticmethod
    def _path_of(target: Any) -> Path:
        return Path(target.toUri().getPath())

    def _replace(self, source: Any, target: Any) -> None:
        if self._fs.rename(source, target):
            return
        # It may refuse to overwrite. FileContext's rename does, in one step where the file
        # system can, but takes many calls.
        options = getattr(self._hadoop.fs, "Options$Rename")
        overwrite = self._sc._gateway.new_array(options, 1)
        overwrite[0] = options.OVERWRITE
        context = self._hadoop.fs.FileContext.getFileContext(target.toUri(), self._conf)
        context.rename(source, target, overwrite)

    @contextmanager
    def failing(self, action: str, name: str) -> Iterator[None]:
        """Turn what the file system raises inside into a `CheckpointError`."""
        try:
            yield
        except java_errors(OSError) as error:
            raise CheckpointError(
                f"Cannot {action} {name!r} in {self.uri}: {reason(error)}"
            ) from None


@contextmanager
def _synced(file: Any) -> Iterator[Any]:
    """Close Java's stream, and have what was written to it on the disk."""
    try:
        yield file
        if file.hasCapability("hsync"):
            file.hsync()
    finally:
        file.close()


class JavaFile:
    """See `GrowingFile`.

    Parameters
    ----------
    stream : py4j.java_gateway.JavaObject
        Hadoop's FSDataOutputStream.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.shown = bool(stream.hasCapability("hflush"))

    def write(self, data: bytes) -> None:
        """Append."""
        self._stream.write(data)

    def flush(self) -> None:
        """Let readers see what was written."""
        self._stream.hflush()

    def close(self) -> None:
        """End the file."""
        self._stream.close()
