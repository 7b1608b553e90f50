"""A directory of files by its URI: through the JVM where Python has one, else through pyarrow."""

from __future__ import annotations

import os
from typing import Any

from .arrow_storage import ArrowStorage
from .remote.context import RemoteContext
from .remote.store import RemoteStore
from .storage import Storage
from .stores import FileStore, PublishingStore


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
    return ArrowStorage(uri) if sc is None else open_published(sc, uri)


def open_published(sc: Any, uri: str | os.PathLike[str]) -> PublishingStore:
    """Return the files of a folder, which can be published for every task.

    Parameters
    ----------
    sc : SparkContext
    uri : str

    Raises
    ------
    ConfigError
        No file system answers to the URI.
    """
    return RemoteStore(sc, uri) if isinstance(sc, RemoteContext) else Storage(sc, uri)
