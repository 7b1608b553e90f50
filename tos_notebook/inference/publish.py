"""Bring a file to the executors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..cluster.storage import Storage, digest_of, temporary_directory


def publish(sc: Any, archive: Path) -> str:
    """Publish an archive under a name of its own, for as long as this process lasts.

    Returns
    -------
    str
        The name, for `tos_notebook.cluster.storage.fetch`.
    """
    name = f"tos-{digest_of(archive)}.zip"
    Storage(sc, temporary_directory(sc)).publish(name, archive)
    return name
