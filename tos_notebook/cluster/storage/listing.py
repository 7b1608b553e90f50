"""Which files data are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, DataError
from ..failures import java_errors, reason
from .paths import hadoop_path

if TYPE_CHECKING:
    from pyspark import SparkContext


def find_files(sc: SparkContext, pattern: str) -> list[str]:
    """Return the URIs of the files at a path: a file, a directory or a glob, on any file system.

    Parameters
    ----------
    sc : SparkContext
    pattern : str
        A Hadoop URI, or a path on Spark's default file system; ``*``, ``?``, ``[ab]`` and
        ``{a,b}`` match.

    Returns
    -------
    list of str
        Sorted; empty if nothing matches. Hidden files (``_x``, ``.x``) are left out.

    Raises
    ------
    ConfigError
        The file system cannot be used.
    """
    try:
        path = hadoop_path(sc, pattern)
        fs = path.getFileSystem(sc._jsc.hadoopConfiguration())
        found = list(fs.globStatus(path) or [])
        inside = [list(fs.listStatus(s.getPath())) for s in found if s.isDirectory()]
    except java_errors() as error:
        raise ConfigError(f"Cannot look for files at {pattern!r}: {reason(error)}") from None
    files = [status.getPath() for status in sum(inside, found) if status.isFile()]
    return sorted(str(f.toString()) for f in files if not f.getName().startswith(("_", ".")))


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
