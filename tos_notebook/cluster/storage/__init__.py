"""Files on any file system Spark knows: stored, published, found."""

from __future__ import annotations

from .directory import DAY, Storage
from .folder import temporary_directory
from .listing import find_files, list_files
from .paths import is_local, local_path
from .published import archive_name, digest_of, executor_folder, fetch, fetch_archive

__all__ = [
    "DAY",
    "Storage",
    "archive_name",
    "digest_of",
    "executor_folder",
    "fetch",
    "fetch_archive",
    "find_files",
    "is_local",
    "list_files",
    "local_path",
    "temporary_directory",
]
