"""Bring a file to the executors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..cluster.files import archive_name, temporary_directory
from ..cluster.storage import Storage


def publish(sc: Any, archive: Path) -> str:
    """Publish an archive under a name of its own, for as long as this process lasts.

    Returns
    -------
    str
        The name, for `tos_notebook.cluster.files.fetch_archive`.
    """
    name = archive_name("tos", archive)
    Storage(sc, temporary_directory(sc)).publish(name, archive)
    return name
