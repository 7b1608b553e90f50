"""What rows are: a digest by which data that are made again are known to be the same."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array

DIGEST_SIZE = 16
"""Bytes: no two partitions are taken for the same by chance."""

NO_DIGEST = bytes(DIGEST_SIZE)
"""Where nothing was hashed."""


class Content(NamedTuple):
    """What the rows of a partition are."""

    rows: int
    digest: str
    """Of their dtypes, shapes, values and order, in hexadecimal digits."""

    def __str__(self) -> str:
        return f"{self.rows} rows with digest {self.digest[:8]}"


class Beginning(NamedTuple):
    """What the first push of a stream was in an epoch."""

    epoch: int
    partition: int
    partitions: int
    """How many there were."""
    steps: int
    """Its batches."""
    digest: str
    """Of their rows, in hexadecimal digits."""


class Hash:
    """The digest of batches, one after the other.

    Parameters
    ----------
    *batches : sequence of ndarray, shape (rows, ...)
        To begin with.
    """

    def __init__(self, *batches: Sequence[Array]) -> None:
        self._hash = hashlib.blake2b(digest_size=DIGEST_SIZE)
        self._rows = 0
        for batch in batches:
            self.update(batch)

    def update(self, columns: Sequence[Array]) -> None:
        """Take one more batch into account."""
        for column in columns:
            self._hash.update(f"{column.dtype.str}{column.shape}".encode())
            for part in _parts(column):
                self._hash.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        self._rows += len(columns[0]) if columns else 0

    @property
    def digest(self) -> bytes:
        """Of what has come so far, `DIGEST_SIZE` bytes."""
        return self._hash.digest()

    @property
    def content(self) -> Content:
        """What has come so far."""
        return Content(self._rows, self._hash.hexdigest())


def _parts(column: Any) -> Iterable[Array]:
    if column.dtype.kind == "O":
        # Each value behind its length. Later formats name equal objects once.
        text = marshal.dumps(column.reshape(-1).tolist(), 0)
        return (np.frombuffer(text, np.uint8),)
    # Of rows that are held sparse, what they are made of.
    return getattr(column, "parts", (column,))


def content_of(columns: Sequence[Array]) -> Content:
    """Return what rows are, given as columns of shape (rows, ...)."""
    return Hash(columns).content
