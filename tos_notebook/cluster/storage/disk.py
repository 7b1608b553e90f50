"""Files of this machine, which stay when it loses its power."""

from __future__ import annotations

import os
from pathlib import Path


def create(path: Path, data: bytes) -> bool:
    """Write a file unless there is one; return whether it was written."""
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
    """Have a file or folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
