"""Temporary files in folders that the next process removes if their own was killed."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_OWNER = ".owner"
"""A file in each folder, locked for as long as its process lives, or one that it has forked."""

_own: dict[str, Path] = {}
"""This process's folder, by the folder for temporary files that it is in."""


def folder() -> Path:
    """Return this process's folder for temporary files, which goes when the process ends."""
    parent = tempfile.gettempdir()
    if parent not in _own:
        sweep()
        _own[parent] = owned("tos-")
    return _own[parent]


def directory(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Return a temporary directory in this process's folder."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=folder())


def owned(prefix: str) -> Path:
    """Make a folder that `sweep` spares while this process lives, and that goes when it ends."""
    made, process = Path(tempfile.mkdtemp(prefix=prefix)), os.getpid()

    def remove() -> None:
        # Not at the end of a process that was forked.
        if os.getpid() == process:
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    # Without locks others cannot tell whether the process lives, and do not sweep the folder.
    with suppress(OSError):
        new = made / ".new"
        _lock(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        # Only now, as it is locked, does it say that the folder has an owner.
        new.rename(made / _OWNER)
    return made


def sweep() -> None:
    """Remove the folders that killed processes of this user have left."""
    for owner in Path(tempfile.gettempdir()).glob(f"tos-*/{_OWNER}"):
        # Another may remove it at this moment.
        with suppress(OSError):
            _sweep(owner)


def _sweep(owner: Path) -> None:
    found = owner.parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    descriptor = os.open(owner, os.O_RDWR | os.O_NOFOLLOW)
    try:
        _lock(descriptor)
        shutil.rmtree(owner.parent, ignore_errors=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Raise OSError if another process has the lock."""
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
