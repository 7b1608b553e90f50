"""What names files: URIs, paths, and names in a directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from urllib.request import url2pathname

if TYPE_CHECKING:
    from pyspark import SparkContext

_SCHEME = re.compile(r"file:|[A-Za-z][A-Za-z0-9+.-]*:/")


def hadoop_path(sc: SparkContext, uri: str) -> Any:
    """Return a Hadoop Path; a bare path is on Spark's default file system, as for ``spark.read``.

    Where that is this machine, it may begin with ``~`` and is relative to Python's folder.
    """
    hadoop = sc._jvm.org.apache.hadoop.fs
    default = hadoop.FileSystem.getDefaultUri(sc._jsc.hadoopConfiguration()).getScheme()
    if not _SCHEME.match(uri) and default == "file":
        # Not Path.as_uri, which would escape the characters of a glob.
        uri = f"file://{Path(uri).expanduser().absolute()}"
    return hadoop.Path(uri)


def is_local(uri: str) -> bool:
    """Whether a URI, or bare path, names files of this machine."""
    return "://" not in uri or uri.startswith("file:")


def local_path(uri: str) -> Path:
    """Return the path of a local URI, or of a bare path."""
    return (
        Path(url2pathname(urlparse(uri).path) if uri.startswith("file:") else uri)
        .expanduser()
        .absolute()
    )


def is_name(name: str) -> bool:
    """Tell whether a file or a folder of this package may have this name."""
    return bool(name) and not name.startswith(".") and not set(name) & set("/\\:")
