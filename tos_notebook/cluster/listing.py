"""Which files a URI of any Hadoop file system names."""

from __future__ import annotations

from typing import Any

from ..errors import DataError
from .failures import reason


def list_files(sc: Any, uri: str) -> list[str]:
    """Return the files of a directory or a glob pattern, or the file itself, sorted.

    Names that begin with a dot or an underscore are left out, as Spark does.

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
    from py4j.protocol import Py4JJavaError

    path = sc._jvm.org.apache.hadoop.fs.Path(uri)
    try:
        system = path.getFileSystem(sc._jsc.hadoopConfiguration())
        named = system.globStatus(path) or ()
        folders = [found.getPath() for found in named if found.isDirectory()]
        inside = [entry for folder in folders for entry in system.listStatus(folder)]
    except Py4JJavaError as error:
        raise DataError(f"{uri} cannot be read: {reason(error)}") from None
    files = [entry.getPath() for entry in [*named, *inside] if entry.isFile()]
    found = sorted(file.toString() for file in files if not file.getName().startswith((".", "_")))
    if not found:
        raise DataError(f"Expected files at {uri}, found none.")
    return found
