"""One bit for each value: its sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..common.arrays import Array
from .base import Codec
from .buckets import BUCKET, BucketPart, multiply
from .parts import Floats, Part, Range, smaller
from .pieces import Piece

_SIGNS = 1 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
"""What the eight bits of each byte stand for."""


class SignPart(BucketPart):
    """Signs, times the mean magnitude of their bucket."""

    family = "sign"

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(ranges, 8, 1)
        self._negative = np.empty(self.loaded.size, np.bool_)
        self._signs = np.empty((-(-self.loaded.size // 8), 8), np.float32)

    def pack(self, piece: Piece, values: Floats, scales: Floats, codes: Array, key: int) -> None:
        """Pack the signs of a piece."""
        np.divide(self.magnitudes(values, np.add), BUCKET, out=scales)
        if short := piece.size % BUCKET:
            scales[-1] *= BUCKET / short
        negative = self._negative[: piece.size]
        np.less(values, 0, out=negative)
        codes[:] = np.packbits(negative)

    def unpack(self, scales: Floats, codes: Array, out: Floats) -> None:
        """Look eight signs up at a time, and scale them."""
        signs = self._signs[: codes.size]
        np.take(_SIGNS, codes, axis=0, out=signs, mode="clip")
        multiply(signs.reshape(-1)[: out.size], scales, out)


class Sign(Codec):
    """One bit for each value and the mean magnitude of each bucket."""

    name = "sign"
    biased = True
    ratio = 30.1
    rule = "mean|a| · sign(a) in buckets of 512"
    source = "Seide et al. 2014; Karimireddy et al. 2019, arXiv:1901.09847"
    when = "A slow network: a thirtieth of the bytes at nearly full accuracy, and cheap."

    def parts(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> Sequence[Part]:
        """Return one part."""
        return [smaller(dtype, ranges, SignPart)]
