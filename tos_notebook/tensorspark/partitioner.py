"""Partitioners for ``rdd.partitionBy(num_partition, partitioner)``."""

from __future__ import annotations

import copy
import functools
import pickle
import zlib
from typing import Any

import numpy as np

from ..common.hashing import mix_key
from ..errors import ConfigError


class Partitioner:
    """Base class: a function of a record's key, the record's first element.

    Parameters
    ----------
    num_partition : int
        Number of target partitions, at least 1.

    Raises
    ------
    ConfigError
        `num_partition` is below 1.
    """

    def __init__(self, num_partition: int) -> None:
        if num_partition < 1:
            raise ConfigError(f"num_partition: expected at least 1, got {num_partition}.")
        self.num_partition = num_partition

    def __call__(self, key: Any) -> int:
        """Return the target partition, in 0..num_partition-1, of records with this key."""
        raise NotImplementedError(f"{type(self).__name__} does not say where a key goes.")

    def for_shuffle(self) -> Partitioner:
        """Return what one ``partitionBy`` is to use: this very object, by default."""
        return self


class RandomPartitioner(Partitioner):
    """Sends records to random partitions, to others in each ``partitionBy``.

    Where a record goes is a function of the seed, the *round* and the content of its key, so
    that a recomputed partition is the same partition. Each ``partitionBy`` takes a round.

    Parameters
    ----------
    num_partition : int
        Number of target partitions.
    seed : int
        Another seed gives another layout.
    """

    def __init__(self, num_partition: int, seed: int = 0) -> None:
        super().__init__(num_partition)
        self.seed = seed
        self.round = 0
        _teach_partition_by()

    def __call__(self, key: Any) -> int:
        """Return the target partition of records with this key."""
        return mix_key(self.seed, self.round, content_hash(key)) % self.num_partition

    def for_shuffle(self) -> RandomPartitioner:
        """Return a copy that stays in this round, and continue with the next."""
        frozen = copy.copy(self)
        self.round += 1
        return frozen

    def __repr__(self) -> str:
        return f"RandomPartitioner({self.num_partition}, seed={self.seed}, round={self.round})"


@functools.cache
def _teach_partition_by() -> None:
    """Have PySpark's ``partitionBy`` ask a `Partitioner` for the object to use.

    PySpark (its Python part by ``==``, its JVM part by ``id``) leaves out a shuffle by the
    partitioner that the RDD has already: the second ``partitionBy`` with one object would
    move nothing. No hook is left to the object itself. Other functions pass unchanged.
    """
    from pyspark import RDD

    original = RDD.partitionBy

    @functools.wraps(original)
    def partition_by(rdd: Any, *arguments: Any, **named: Any) -> Any:
        arguments = tuple(map(_for_shuffle, arguments))
        named = {key: _for_shuffle(value) for key, value in named.items()}
        return original(rdd, *arguments, **named)

    RDD.partitionBy = partition_by


def _for_shuffle(value: Any) -> Any:
    return value.for_shuffle() if isinstance(value, Partitioner) else value


def content_hash(key: Any) -> int:
    """Return a 32-bit hash of a key's content, the same in every process.

    Parameters
    ----------
    key : ndarray, anything with ``toArray``, tuple, number, str, bytes, or anything picklable
    """
    if isinstance(key, np.ndarray):
        return zlib.crc32(key.tobytes())
    if hasattr(key, "toArray"):
        return zlib.crc32(key.toArray().tobytes())
    if isinstance(key, (tuple, list)):
        return zlib.crc32(b"".join(content_hash(part).to_bytes(4, "big") for part in key))
    if isinstance(key, bytes):
        return zlib.crc32(key)
    # Not the pickle of numbers and strings, which also depends on what they share memory with.
    plain = isinstance(key, (str, int, float, complex, np.generic))
    return zlib.crc32(repr(key).encode() if plain else pickle.dumps(key, protocol=4))
