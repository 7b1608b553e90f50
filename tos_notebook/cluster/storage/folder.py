"""Temporary folders, which last as long as this process."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from ...common import temporary

if TYPE_CHECKING:
    from pyspark import SparkContext


def temporary_directory(sc: SparkContext) -> str:
    """Return the URI of this process's directory for the files of one Spark application.

    It lasts as long as the process: an executor that starts later fetches every file that
    was published, also those of sessions that have been closed.
    """
    application = sc.applicationId
    if application not in _temporary:
        folder = tempfile.mkdtemp(prefix=f"{application}-", dir=temporary.folder())
        _temporary[application] = f"file://{folder}"
    return _temporary[application]


_temporary: dict[str, str] = {}
