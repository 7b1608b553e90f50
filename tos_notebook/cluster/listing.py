"""Which files data are read from."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError, DataError
from .storage import find_files


def list_files(sc: Any, uri: str) -> list[str]:
    """Return what `find_files` finds, which must be something.

    Parameters
    ----------
    sc : SparkContext
    uri : str
        Such as ``hdfs:///data/train`` or ``s3a://bucket/train-*.tfrecord``.

    Raises
    ------
    DataError
        There is no such file, or its file system cannot be read.
    """
    try:
        found = find_files(sc, uri)
    except ConfigError as error:
        raise DataError(f"Expected files at {uri}, but they cannot be read. {error}") from None
    if not found:
        raise DataError(f"Expected files at {uri}, found none.")
    return found
