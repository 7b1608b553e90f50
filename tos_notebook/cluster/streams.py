"""Files that are read while they are written, on any file system."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from .files import is_local, local_path
from .opening import open_store
from .stores import FileStore


class Growing:
    """A file in a folder, to which bytes are appended. Whole records only, between flushes.

    Where a file system shows a file only once it is closed (S3), each flush ends the file and
    the next one continues in another, whose name comes behind.

    Parameters
    ----------
    sc : SparkContext or None
        Not used for a local folder. None where Python has no JVM.
    folder : str
        A Hadoop URI or a local path.
    name : str

    Raises
    ------
    ConfigError
        No file system answers to the URI's scheme.
    CheckpointError
        It refused.
    """

    def __init__(self, sc: Any, folder: str, name: str) -> None:
        self._name = name
        self._number = 0
        self._pending = bytearray()
        self._storage: FileStore | None = None
        self._file: Any = None
        self.rolls = False
        if is_local(folder):
            path = local_path(folder)
            path.mkdir(parents=True, exist_ok=True)
            self._file = Path(path, name).open("xb")  # noqa: SIM115 - until close()
        else:
            self._storage = open_store(sc, folder)
            self._open(self._storage)

    def write(self, data: bytes) -> None:
        """Append, once `flush` is called."""
        self._pending += data

    def flush(self) -> None:
        """Let readers see what was written.

        Raises
        ------
        CheckpointError, OSError
            The file system refused.
        """
        data, self._pending = self._pending, bytearray()
        if not data:
            return
        if self._storage is not None and self._file is None:
            self._open(self._storage)
        with self._failing("write"):
            self._file.write(data)
            if not self.rolls:
                self._file.flush()
        if self.rolls:
            self._end()

    def close(self) -> None:
        """Flush, and end the file."""
        self.flush()
        self._end()

    def _open(self, storage: FileStore) -> None:
        self._number += 1
        self._file = storage.create(f"{self._name}.{self._number:06d}")
        self.rolls = not self._file.shown

    def _end(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with self._failing("close"):
                file.close()

    def _failing(self, action: str) -> AbstractContextManager[None]:
        return self._storage.failing(action, self._name) if self._storage else nullcontext()
