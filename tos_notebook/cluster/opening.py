"""A directory of files by its URI: through the JVM where Python has one, else through pyarrow."""

from __future__ import annotations

import os
from typing import Any

from .arrow_storage import ArrowStorage
from .storage import Storage
from .stores import FileStore


def open_store(sc: Any, uri: str | os.PathLike[str]) -> FileStore:
    """Return the files of a folder.

    Parameters
    ----------
    sc : SparkContext or None
        None where there is none, such as in an executor.
    uri : str

    Raises
    ------
    ConfigError
        No file system answers to the URI.
    """
    return ArrowStorage(uri) if getattr(sc, "_jvm", None) is None else Storage(sc, uri)
