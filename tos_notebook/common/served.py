"""Served tables: embeddings whose rows only shards have, and how a row begins.

A row begins as its number and the table's seed say, whichever process asks, and however often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args
from zlib import crc32

import numpy as np

from .arrays import Array
from .hashing import mix64, mix_key

Distribution = Literal["constant", "uniform", "normal", "truncated normal"]

FAR = 2.0
"""Standard deviations beyond which a truncated normal distribution has nothing."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class First:
    """What the values of a row are before anything has trained it.

    Parameters
    ----------
    distribution : {"constant", "uniform", "normal", "truncated normal"}
    a, b : float
        The value, and nothing; the lowest and the highest; mean and standard deviation.
    """

    distribution: Distribution
    a: float = 0.0
    b: float = 0.0


@dataclass(frozen=True, slots=True)
class ServedTable:
    """One table.

    Parameters
    ----------
    name : str
        Its layer's.
    rows : int
        Ids are from 0 to `rows` - 1.
    width : int
        Values of a row that the model sees, float32.
    capacity : int
        Different rows that a worker has at once, at most.
    first : First
    seed : int
    kept : tuple of float
        What an optimizer keeps of each value, slot by slot: what that begins as.
    """

    name: str
    rows: int
    width: int
    capacity: int
    first: First = First("uniform", -0.05, 0.05)
    seed: int = 0
    kept: tuple[float, ...] = ()

    @property
    def columns(self) -> int:
        """Values of a row with all that an optimizer keeps of it."""
        return self.width * (1 + len(self.kept))

    @property
    def row_bytes(self) -> int:
        """Bytes of such a row, with its number."""
        return 8 + 4 * self.columns

    def begin(self, ids: Array) -> Array:
        """Return rows as they begin.

        Parameters
        ----------
        ids : ndarray, shape (k,), int64

        Returns
        -------
        ndarray, shape (k, columns), float32
        """
        made = np.empty((len(ids), self.columns), np.float32)
        # Tables of one seed differ, too.
        key = mix_key(self.seed, crc32(self.name.encode()))
        made[:, : self.width] = _drawn(self.first, key, ids, self.width)
        for number, value in enumerate(self.kept, 1):
            made[:, number * self.width : (number + 1) * self.width] = value
        return made

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ServedTable:
        """Return what `to_json` was called of.

        Raises
        ------
        TypeError, ValueError, LookupError
            It is something else.
        """
        first = First(**value["first"])
        if first.distribution not in get_args(Distribution):
            raise ValueError(f"distribution {first.distribution!r}")
        kept = tuple(float(number) for number in value["kept"])
        return cls(**{**value, "first": first, "kept": kept})


def shard_of(ids: Array, shards: int) -> Array:
    """Return which shard has each row: they are dealt by a hash of their numbers.

    Parameters
    ----------
    ids : ndarray, int64
    shards : int
    """
    hashed: Array = mix64(ids.astype(np.uint64)) % np.uint64(shards)
    return hashed.astype(np.int64)


def _drawn(first: First, key: int, ids: Array, width: int) -> Array | float:
    if first.distribution == "constant":
        return first.a
    keys = mix64(ids.astype(np.uint64) ^ np.uint64(key))
    steps = np.arange(width, dtype=np.uint64) * _GAMMA
    words: Array = mix64(keys[:, None] + steps)
    if first.distribution == "uniform":
        return np.float32(first.a) + _units(words) * np.float32(first.b - first.a)
    values = _normal(words)
    if first.distribution == "truncated normal":
        far = np.flatnonzero(np.abs(values.reshape(-1)) > FAR)
        again = words.reshape(-1)[far]
        while far.size:
            again = mix64(again)
            drawn = _normal(again)
            values.reshape(-1)[far] = drawn
            left = np.abs(drawn) > FAR
            far, again = far[left], again[left]
    return np.float32(first.a) + values * np.float32(first.b)


def _units(words: Array) -> Array:
    """Return numbers from 0 to below 1 of the upper bits of random words."""
    return (words >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)


def _normal(words: Array) -> Array:
    """Return numbers of a standard normal distribution (Box and Muller 1958), one of each word."""
    # Above 0, since it has a logarithm.
    radius = np.sqrt(-2 * np.log(_units(words) + np.float32(2**-25)))
    turn = (words & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2**-24)
    values: Array = radius * np.cos(np.float32(2 * np.pi) * turn)
    return values
