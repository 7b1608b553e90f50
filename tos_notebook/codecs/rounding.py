"""Whole numbers from -127 to 127 or from -7 to 7, times a scale for each bucket of values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ..common.arrays import Array
from ..common.hashing import nth_hash
from .base import Codec
from .buckets import BucketPart, multiply
from .parts import Floats, Part, Range, smaller
from .pieces import PIECE, Piece

_SEED = 1610
_LEAST = float(np.finfo(np.float32).tiny)
"""The least scale, so that its reciprocal is finite."""
_MARGIN = 1e-4
"""Levels that the largest value stays below the last one, so that rounding cannot pass it."""


@cache
def _dither() -> Floats:
    """Return numbers that are spread evenly over (-0.5, 0.5) and shuffled, twice.

    From a random place on, as if round a circle, each is uniform: ``rint(x + d)`` is x on
    average. To draw other numbers would take longer than all the rest.
    """
    pool = (np.random.default_rng(_SEED).permutation(PIECE) + 0.5) / PIECE - 0.5
    return np.tile(pool.astype(np.float32), 2)


class RoundedPart(BucketPart):
    """Values rounded to multiples of a bucket's scale, from -`levels` to `levels`.

    If `stochastic`, they are rounded up or down by chance, so that the mean is right. Else they go
    to the nearest, which error feedback needs: by chance, few levels do not contract.
    """

    def __init__(
        self, ranges: Sequence[Range], per_byte: int, levels: int, stochastic: bool
    ) -> None:
        super().__init__(ranges, per_byte, levels + 1)
        self._levels = levels - _MARGIN
        self._dither = _dither() if stochastic else None

    def settings(self, piece: Piece, key: int) -> tuple[Floats | None, float, float]:
        """Return what decides where to round up, None for the nearest; levels; least scale."""
        if self._dither is None:
            return None, self._levels, _LEAST
        at = nth_hash(key, piece.number) % PIECE
        return self._dither[at : at + piece.size], self._levels, _LEAST

    def pack(self, piece: Piece, values: Floats, scales: Floats, codes: Array, key: int) -> None:
        """Scale and round a piece."""
        dither, levels, least = self.settings(piece, key)
        np.divide(self.magnitudes(values, np.maximum), levels, out=scales)
        np.maximum(scales, least, out=scales)
        rounded = self.work[: piece.size]
        multiply(values, np.reciprocal(scales), rounded)
        if dither is not None:
            np.add(rounded, dither, out=rounded)
        np.rint(rounded, out=rounded)
        self.combine(rounded, codes)

    @abstractmethod
    def combine(self, rounded: Floats, codes: Array) -> None:
        """Turn whole numbers, which may be changed, into codes."""


class Int8Part(RoundedPart):
    """A byte for each value."""

    family = "int8"

    def __init__(self, ranges: Sequence[Range], stochastic: bool) -> None:
        super().__init__(ranges, 1, 127, stochastic)

    def combine(self, rounded: Floats, codes: Array) -> None:
        """Convert to int8."""
        np.copyto(codes.view(np.int8), rounded, casting="unsafe")

    def unpack(self, scales: Floats, codes: Array, out: Floats) -> None:
        """Multiply codes with scales."""
        multiply(codes.view(np.int8), scales, out)


class Int4Part(RoundedPart):
    """Half a byte for each value: the first half of a piece in the lower bits."""

    def __init__(self, ranges: Sequence[Range], stochastic: bool) -> None:
        super().__init__(ranges, 2, 7, stochastic)
        self._codes = np.empty(self.loaded.size, np.int8)

    def combine(self, rounded: Floats, codes: Array) -> None:
        """Add 8 to each and combine them as numbers."""
        low, high = rounded[: codes.size], rounded[codes.size :]
        np.multiply(high, 16, out=high)
        np.add(low[: high.size], high, out=low[: high.size])
        np.add(low, 8 * 16 + 8, out=low)
        np.copyto(codes, low, casting="unsafe")

    def unpack(self, scales: Floats, codes: Array, out: Floats) -> None:
        """Take the halves apart and multiply them with scales."""
        whole = self._codes[: out.size]
        low, high = whole[: codes.size].view(np.uint8), whole[codes.size :].view(np.uint8)
        np.bitwise_and(codes, 15, out=low)
        np.right_shift(codes[: high.size], 4, out=high)
        np.subtract(whole, 8, out=whole)
        multiply(whole, scales, out)


class Int8(Codec):
    """One byte for each value."""

    name = "int8"
    by_chance = True
    ratio = 3.97
    rule = "round(a/s), s = max|a| / 127 in buckets of 512; by chance, with +ef to the nearest"
    source = "Alistarh et al. 2017, arXiv:1610.02132 (there scaled by the L2 norm)"
    when = "A quarter of the bytes, unbiased without memory: the safe choice; for replies too."

    def parts(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> Sequence[Part]:
        """Return one part."""
        return [smaller(dtype, ranges, lambda r: Int8Part(r, not self.feedback))]


class Int4(Codec):
    """Half a byte for each value."""

    name = "int4"
    by_chance = True
    ratio = 7.87
    rule = "round(a/s), s = max|a| / 7 in buckets of 512; by chance, with +ef to the nearest"
    source = "Alistarh et al. 2017, arXiv:1610.02132 (there scaled by the L2 norm)"
    when = "An eighth of the bytes; unbiased without memory, but noisy."

    def parts(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> Sequence[Part]:
        """Return one part."""
        return [smaller(dtype, ranges, lambda r: Int4Part(r, not self.feedback))]
