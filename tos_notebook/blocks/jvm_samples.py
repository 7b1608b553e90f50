"""The rows that Spark's JVM draws of a partition: its generators and its sampler, in NumPy.

`RDD.sample` gives each partition a seed of `java.util.Random`, from which `XORShiftRandom` draws
for `BernoulliSampler` (Spark's `org.apache.spark.util.random`). The xorshift is that of Marsaglia
2003, "Xorshift RNGs", Journal of Statistical Software 8(14); the seed's hash is MurmurHash3.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

GAPS_UP_TO = 0.4
"""Up to this fraction Spark draws how many rows to leave out; above, a number for each row."""

SMALLEST = 5e-11
"""Below this, Spark takes a number for 0, which has no logarithm."""

_ALL = (1 << 64) - 1


def jvm_sample(rows: int, fraction: float, seed: int, partition: int) -> npt.NDArray[np.int64]:
    """Return what ``rdd.sample(False, fraction, seed)`` draws of one partition.

    Parameters
    ----------
    rows : int
        Rows in the partition.
    fraction : float
        Above 0, below 1.
    seed : int
    partition : int
        Its number in the RDD, from 0.

    Returns
    -------
    ndarray, int64
        The rows that are in the sample, in their order.
    """
    state = _hash(_nth_long(seed, partition))
    if fraction > GAPS_UP_TO:
        return np.flatnonzero(_doubles(state, rows) <= fraction)
    expected = rows * fraction
    count = int(expected + 6 * math.sqrt(expected)) + 8
    while True:
        draws = np.maximum(_doubles(state, count), SMALLEST)
        # A gap is rounded down, as in Scala's toInt.
        gaps = np.trunc(np.log(draws) / math.log1p(-fraction)).astype(np.int64)
        found = np.cumsum(gaps + 1) - 1
        if found[-1] >= rows:
            return found[: np.searchsorted(found, rows)]
        count *= 2


def _nth_long(seed: int, index: int) -> int:
    """Return the number at an index of those that `java.util.Random.nextLong` returns, unsigned."""
    factor, mask = 0x5DEECE66D, (1 << 48) - 1
    state, words = (seed ^ factor) & mask, [0, 0]
    for number in range(2 * (index + 1)):
        state = (state * factor + 0xB) & mask
        words[number % 2] = state >> 16
    # Java adds the second half as a signed number.
    return ((words[0] << 32) + words[1] - ((words[1] >> 31) << 32)) & _ALL


def _hash(seed: int) -> int:
    """Return the state with which `XORShiftRandom` begins."""
    data = seed.to_bytes(8, "big")
    low = _murmur(data, 0x3C074A61)
    return (_murmur(data, low) << 32) | low


def _murmur(data: bytes, seed: int) -> int:
    """Return MurmurHash3 of 32 bits, as Scala's `bytesHash`, of whole words."""
    mask = (1 << 32) - 1

    def turned(word: int, by: int) -> int:
        return ((word << by) | (word >> (32 - by))) & mask

    found = seed
    for start in range(0, len(data), 4):
        word = int.from_bytes(data[start : start + 4], "little") * 0xCC9E2D51 & mask
        found ^= turned(word, 15) * 0x1B873593 & mask
        found = (turned(found, 13) * 5 + 0xE6546B64) & mask
    found ^= len(data)
    found = (found ^ (found >> 16)) * 0x85EBCA6B & mask
    found = (found ^ (found >> 13)) * 0xC2B2AE35 & mask
    return found ^ (found >> 16)


def _doubles(state: int, count: int) -> npt.NDArray[np.float64]:
    """Return the first numbers of `XORShiftRandom.nextDouble`, shape (count,), from 0 to 1."""
    words = _states(state, 2 * count).reshape(count, 2) & np.array([2**26 - 1, 2**27 - 1], "u8")
    both = (words[:, 0] << np.uint64(27)) + words[:, 1]
    numbers: npt.NDArray[np.float64] = both * 2.0**-53
    return numbers


def _states(state: int, count: int) -> Words:
    """Return the states that follow one.

    A step is linear over bits, and so are many: of n states come the n that follow, all at once.
    """
    found = _step(np.array([state], np.uint64))
    doublings = 0
    while len(found) < count:
        found = np.concatenate([found, _applied(_after(doublings), found)])
        doublings += 1
    return found[:count]


@cache
def _after(doublings: int) -> Words:
    """Return what becomes of each byte at each place in 2**doublings steps, shape (8, 256)."""
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    if doublings:
        half = _after(doublings - 1)
        bits = _applied(half, _applied(half, bits))
    else:
        bits = _step(bits)
    table = np.zeros((8, 1), np.uint64)
    for column in bits.reshape(8, 8).T:
        table = np.concatenate([table, table ^ column[:, None]], axis=1)
    return table


def _step(words: Words) -> Words:
    words = words ^ (words << np.uint64(21))
    words = words ^ (words >> np.uint64(35))
    return words ^ (words << np.uint64(4))


def _applied(table: Words, words: Words) -> Words:
    found = np.zeros_like(words)
    for place in range(8):
        found ^= table[place][(words >> np.uint64(8 * place)) & np.uint64(255)]
    return found
