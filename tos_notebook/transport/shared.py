"""Memory that a worker and the server on one host share.

Updates and replies then lie in one segment that both have mapped: what TCP would copy four
times between two processes is not copied at all. The connection still carries every
message, and so says whose turn it is to touch the segment.

The worker creates the segment under a random name that only it and the authenticated server
learn; the server opens it, if it is on the same host, and removes the name at once, so that
nothing is left behind however either process ends.
"""

from __future__ import annotations

import mmap
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

FOLDER = "/dev/shm"
_NAME = re.compile(r"tos-[0-9a-f]{32}")


class Segment:
    """A worker's segment; a context manager that removes the name.

    Parameters
    ----------
    nbytes : int
        At least 1.

    Attributes
    ----------
    name : str
        Empty where this host has no shared memory to give.
    buffer : ndarray, shape (nbytes,), uint8
        Aligned to a page. Ordinary memory if `name` is empty.
    """

    def __init__(self, nbytes: int) -> None:
        self.name = f"tos-{secrets.token_hex(16)}"
        try:
            descriptor = os.open(_path(self.name), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            self._withdraw(nbytes)
            return
        try:
            # Reserves the memory: a write to a full file system would kill the process.
            os.posix_fallocate(descriptor, 0, nbytes)
            self.buffer = _map(descriptor, nbytes)
        except OSError:
            self.unlink()
            self._withdraw(nbytes)
        finally:
            os.close(descriptor)

    def _withdraw(self, nbytes: int) -> None:
        self.name = ""
        self.buffer = np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)

    def unlink(self) -> None:
        """Remove the name; the memory stays for whoever has mapped it. May be repeated."""
        if self.name:
            with suppress(FileNotFoundError):
                _path(self.name).unlink()

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *_: object) -> None:
        self.unlink()


def attach(name: str, nbytes: int) -> npt.NDArray[np.uint8] | None:
    """Map a worker's segment and remove its name.

    Parameters
    ----------
    name : str
        As the worker sent it.
    nbytes : int
        The length that it must have.

    Returns
    -------
    ndarray, shape (nbytes,), uint8, or None
        None if there is no such segment on this host, or it is not ours.
    """
    if not _NAME.fullmatch(name):
        return None
    try:
        descriptor = os.open(_path(name), os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        if found.st_size != nbytes:
            return None
        _path(name).unlink()
        return _map(descriptor, nbytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _map(descriptor: int, nbytes: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(mmap.mmap(descriptor, nbytes), np.uint8)


def _path(name: str) -> Path:
    return Path(FOLDER, name)
