"""Two bytes for each value: bfloat16 and IEEE's half precision, rounded to the nearest.

numpy knows no bfloat16, and converts to and from float16 one by one. Integer arithmetic on the
bits of float32 does both, many at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.arrays import Array
from ..errors import NonFiniteUpdate, RemoteProtocolError
from .base import Codec
from .parts import Floats, Part, Range, smaller
from .pieces import Elementwise, Piece, cut

Halves = npt.NDArray[np.uint16]
Bits = npt.NDArray[np.uint32]

_SIGN = 0x8000


class HalfPart(Elementwise):
    """One 16-bit number for each element; any above `infinity`, the sign aside, means NaN."""

    def __init__(self, ranges: Sequence[Range], infinity: int) -> None:
        super().__init__(cut(ranges), (np.uint16, sum(each.size for each in ranges)))
        self._infinity = infinity
        self._bits = np.empty(self.loaded.size, np.uint32)

    @abstractmethod
    def round(self, values: Floats, work: Bits, out: Halves) -> None:
        """Round to the nearest, ties to even; to infinity or the largest if out of range."""

    @abstractmethod
    def widen(self, halves: Halves, out: Floats) -> None:
        """Convert finite numbers to float32, which holds all of them."""

    def write(self, piece: Piece, values: Floats, sent: Sequence[Array], key: int) -> None:
        """Round the values of a piece; what is too large becomes the largest."""
        halves = sent[0][piece.span]
        self.round(values, self._bits[: piece.size], halves)
        if not self._finite(halves):
            if np.isnan(values).any():
                raise NonFiniteUpdate("Expected an update of finite values, got NaN.")
            signs = halves & _SIGN
            halves &= _SIGN - 1
            np.minimum(halves, self._infinity - 1, out=halves)
            halves |= signs

    def read(self, piece: Piece, sent: Sequence[Array], out: Floats) -> None:
        """Widen the numbers of a piece."""
        self.widen(sent[0][piece.span], out)

    def check(self, sent: Sequence[Array]) -> None:
        """Refuse NaN and infinity."""
        if not self._finite(sent[0]):
            raise RemoteProtocolError("Expected finite 16-bit numbers, got NaN or infinity.")

    def _finite(self, halves: Halves) -> bool:
        # As integers they order by magnitude: as signed ones those without a sign, else with it.
        positive, negative = halves.view(np.int16).max(), halves.max()
        return bool(positive < self._infinity and negative < self._infinity | _SIGN)


def _shift_out(bits: Bits, count: int, out: Bits) -> None:
    """Do ``out = bits / 2**count``, rounded to the nearest, ties to even."""
    np.right_shift(bits, count, out=out)
    np.bitwise_and(out, 1, out=out)
    np.add(out, bits, out=out)
    np.add(out, (1 << (count - 1)) - 1, out=out)
    np.right_shift(out, count, out=out)


class BrainPart(HalfPart):
    """The upper half of a float32."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(ranges, 0x7F80)

    def round(self, values: Floats, work: Bits, out: Halves) -> None:
        """Drop the lower half."""
        _shift_out(values.view(np.uint32), 16, work)
        np.copyto(out, work, casting="unsafe")

    def widen(self, halves: Halves, out: Floats) -> None:
        """Put zeros behind."""
        bits = out.view(np.uint32)
        np.copyto(bits, halves)
        np.left_shift(bits, 16, out=bits)


class IEEEPart(HalfPart):
    """Five bits of exponent and ten of fraction.

    Times 2**-112 a float32 has the half's exponent, and where the half is subnormal so is the
    float32: all that is left to do is to shift.
    """

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(ranges, 0x7C00)
        self._scaled = np.empty(self.loaded.size, np.float32)
        self._signs = np.empty(self.loaded.size, np.uint16)

    def round(self, values: Floats, work: Bits, out: Halves) -> None:
        """Drop 13 bits of magnitude and three of exponent, which are zero; keep the sign."""
        scaled, signs = self._scaled[: values.size], self._signs[: values.size]
        np.clip(values, np.float32(-65504), np.float32(65504), out=scaled)
        np.multiply(scaled, np.float32(2.0**-112), out=scaled)
        bits = scaled.view(np.uint32)
        _shift_out(bits, 13, work)
        np.copyto(out, work, casting="unsafe")
        np.right_shift(bits, 16, out=work)
        np.copyto(signs, work, casting="unsafe")
        np.bitwise_and(signs, _SIGN, out=signs)
        np.bitwise_or(out, signs, out=out)

    def widen(self, halves: Halves, out: Floats) -> None:
        """Shift back, clear the copies of the sign that widening left, and multiply."""
        bits = out.view(np.uint32)
        np.copyto(out.view(np.int32), halves.view(np.int16))
        np.left_shift(bits, 13, out=bits)
        np.bitwise_and(bits, 0x8FFFFFFF, out=bits)
        np.multiply(out, np.float32(2.0**112), out=out)


class BF16(Codec):
    """The upper half of each float32: its range, with 8 bits of precision."""

    name = "bf16"
    ratio = 2.0
    rule = "sign, 8 bits of exponent, 7 of fraction, to the nearest"
    source = "Kalamkar et al. 2019, arXiv:1905.12322"
    when = "Half the bytes for next to no time; whatever the size of the values."

    def parts(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> Sequence[Part]:
        """Return one part; raw for float16, which is as short."""
        return [smaller(dtype, ranges, BrainPart)]


class FP16(Codec):
    """IEEE's half precision: 11 bits of precision from 6e-5 to 65504."""

    name = "fp16"
    ratio = 2.0
    rule = "sign, 5 bits of exponent, 10 of fraction, to the nearest"
    source = "Micikevicius et al. 2018, arXiv:1710.03740"
    when = "Half the bytes, finer than bf16; changes below 6e-5 get coarser, below 3e-8 zero."

    def parts(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> Sequence[Part]:
        """Return one part; raw for float16, which it would not change."""
        return [smaller(dtype, ranges, IEEEPart)]
