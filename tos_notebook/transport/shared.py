"""Memory that a worker and the server on one host share.

Updates and replies then lie in one segment that both have mapped: what TCP would copy four
times between two processes is not copied at all. The connection still carries every
message, and so says whose turn it is to touch the segment.

The segment has no file: the worker makes it (`memfd_create`) under a random name that only it and
the authenticated server learn, and the server opens it through the worker's entry in ``/proc``.
Where workers change the parameters themselves, the server makes it, they open it, and none
waits for a turn. It is sealed. It cannot become shorter, for then the next access would kill the
process that still has it mapped. Nothing is left behind however either process ends.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import secrets
from pathlib import Path

import numpy as np

from ..common.arrays import Buffer

PROCESSES = "/proc"
_NAME = re.compile(r"(tos-[0-9a-f]{32})-([1-9][0-9]{0,9})-([0-9]{1,9})")
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Segment:
    """A worker's segment; a context manager, within which the server can open it.

    Attributes
    ----------
    name : str
        Empty where this host has no shared memory to give.
    buffer : ndarray, shape (nbytes,), uint8
        Aligned to a page. Ordinary memory if `name` is empty.
    """

    def __init__(self, nbytes: int) -> None:
        self.name = ""
        self._descriptor: int | None = None
        token = f"tos-{secrets.token_hex(16)}"
        try:
            self._descriptor = os.memfd_create(token, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.fchmod(self._descriptor, 0o600)
            # Reserves the memory: a write for which there is none would kill the process.
            os.posix_fallocate(self._descriptor, 0, nbytes)
            fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, _SEALS)
            self.buffer = _map(self._descriptor, nbytes)
            self.name = f"{token}-{os.getpid()}-{self._descriptor}"
        except OSError:
            self.close()
            self.buffer = np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)

    def close(self) -> None:
        """Keep others from opening it; the memory stays for those that have. May be repeated."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def attach(name: str, nbytes: int, writable: bool = True) -> Buffer | None:
    """Map a worker's segment, which must have `nbytes`, by the name that the worker sent.

    None if there is no such segment on this host, it is not ours, or it could become shorter.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    token, process, number = found.groups()
    path = Path(PROCESSES, process, "fd", number)
    try:
        # Another host's worker may have the number of a process here, which holds something else.
        if path.readlink() != Path(f"/memfd:{token} (deleted)"):
            return None
        descriptor = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _map(descriptor, nbytes, writable) if _is_sealed(descriptor, nbytes) else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_sealed(descriptor: int, nbytes: int) -> bool:
    """Return whether it is ours, of ordinary pages, and as long as it has to be for good."""
    found = os.fstat(descriptor)
    # Not st_blksize, which is that of a huge page where the system prefers those for all memory.
    if found.st_uid != os.geteuid() or os.fstatvfs(descriptor).f_bsize != mmap.PAGESIZE:
        return False
    # Only memory without a file has seals to ask for.
    seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    return bool(seals & fcntl.F_SEAL_SHRINK) and found.st_size == nbytes


def _map(descriptor: int, nbytes: int, writable: bool = True) -> Buffer:
    allowed = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return np.frombuffer(mmap.mmap(descriptor, nbytes, mmap.MAP_SHARED, allowed), np.uint8)
