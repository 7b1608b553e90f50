"""A directory of files, through pyarrow, whose published files are a session's artifacts."""

from __future__ import annotations

import os
from pathlib import Path

from ...common import temporary
from ..arrow_storage import ArrowStorage
from ..files import digest_of, is_local, local_path
from ..stores import Publications
from .context import RemoteContext


class RemoteStore(ArrowStorage):
    """See `PublishingStore`.

    Parameters
    ----------
    sc : RemoteContext
    uri : str
        See `ArrowStorage`.

    Raises
    ------
    ConfigError
        See `ArrowStorage`.
    """

    def __init__(self, sc: RemoteContext, uri: str | os.PathLike[str]) -> None:
        super().__init__(uri)
        self._sc = sc
        self._published = Publications()

    def publish(self, name: str, data: bytes | memoryview | Path) -> str:
        """See `PublishingStore.publish`."""
        digest = digest_of(data)
        if self._published.is_new(name, digest):
            uri = self.write(name, data)
            if is_local(uri):
                self._sc.add_file(local_path(uri))
            else:
                with temporary.directory("tos-published-") as folder:
                    copy = Path(folder, name)
                    self.copy_out(name, copy)
                    self._sc.add_file(copy)
            self._published.note(name, digest)
        return self._uri_of(name)
