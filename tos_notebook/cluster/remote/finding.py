"""Files that a Spark Connect server finds, on whatever file system it can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...errors import ConfigError
from .context import RemoteContext
from .rows import RemoteRows
from .tasks import second


def find_remote_files(sc: RemoteContext, pattern: str) -> list[str]:
    """Return the URIs of the files at a path, as the server reads it; see `find_files`.

    Raises
    ------
    ConfigError
        The server cannot read them.
    """
    reader: Any = sc.session.read.format("binaryFile")
    try:
        rows = reader.load(pattern).select("path").collect()
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            return []
        line = str(error).strip().partition("\n")[0]
        raise ConfigError(f"Cannot look for files at {pattern!r}: {line}") from None
    return sorted(str(row["path"]) for row in rows)


def read_remote_files(sc: RemoteContext, parts: Sequence[Sequence[str]]) -> RemoteRows:
    """Return the names and contents of files, the given ones in each partition; see `whole_files`.

    Parameters
    ----------
    sc : RemoteContext
    parts : sequence of sequence of str
        As `find_remote_files` has found them.
    """
    targets = {uri: target for target, part in enumerate(parts) for uri in part}
    reader: Any = sc.session.read.format("binaryFile")
    frame = reader.load(list(targets)).select("path", "content")

    def targeted(partition: int, batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for batch in batches:
            for uri, content in zip(*map(batch.column, ("path", "content")), strict=True):
                yield targets[uri.as_py()], (uri.as_py(), content.as_py())

    pairs = RemoteRows(sc, frame).mapPartitionsWithIndex(targeted)
    return pairs.partitionBy(len(parts), int).mapPartitions(second)
