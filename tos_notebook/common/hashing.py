"""SplitMix64: hashes that look random and are the same on every machine.

Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

from typing import Any

_MASK = 0xFFFFFFFFFFFFFFFF
_GAMMA = 0x9E3779B97F4A7C15


def mix64(word: Any) -> Any:
    """Return the hash of an integer, or of each in an array.

    Parameters
    ----------
    word : int, or ndarray of uint64
        An int counts modulo 2**64.

    Returns
    -------
    int or ndarray of uint64, as `word`
    """
    word = (word + _GAMMA) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def mix_key(*words: int) -> int:
    """Return one 64-bit hash of several integers; their order counts."""
    key = 0
    for word in words:
        key = int(mix64(key ^ (word & _MASK)))
    return key


def nth_hash(seed: int, index: int) -> int:
    """Return one number of the generator's sequence from a seed; index 0 is the first."""
    return int(mix64(seed + index * _GAMMA))
