"""The few largest values and where they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.arrays import Array, Buffer, is_finite
from ..errors import CodecError, NonFiniteUpdate, RemoteProtocolError
from .base import Codec
from .parts import Floats, Part, Range, fields, smaller
from .pieces import Piece, Piecewise, cut

_SAMPLE = 4096
_MAGNITUDE = 0x7FFFFFFF
"""Without the sign, the bits of floats order as integers as their magnitudes do; NaN on top."""


class TopKPart(Piecewise):
    """How many of each piece are sent; which, counted from its start; and their values.

    In all, that is a fraction of the elements, rounded, but one at least.
    """

    def __init__(self, ranges: Sequence[Range], fraction: float) -> None:
        pieces = cut(ranges)
        size = sum(each.size for each in ranges)
        self._sent = max(1, round(fraction * size))
        self._stride = max(1, size // _SAMPLE) | 1  # odd: columns often come in powers of two
        counts = (np.uint32, len(pieces)), (np.float32, self._sent), (np.uint16, self._sent)
        super().__init__(pieces, *counts)
        self._bits = np.empty(self.loaded.size, np.int32)
        self._above = np.empty(self.loaded.size, np.bool_)

    def encode(self, values: Array, payload: Buffer, key: int, residual: Array | None) -> None:
        """Find the largest among those above an estimate of the least of them."""
        sent = fields(payload, *self.counts)
        places, found = self._largest(values)
        if not is_finite(found):
            raise NonFiniteUpdate("Expected an update of finite values, got NaN or infinity.")
        firsts = [piece.start for piece in self.pieces]
        bounds = np.searchsorted(places, [*firsts, np.iinfo(places.dtype).max])
        sent[0][:] = counts = np.diff(bounds)
        sent[1][:] = found
        np.subtract(places, np.repeat(firsts, counts), out=sent[2], casting="unsafe")
        if residual is not None:
            for piece in self.pieces:
                self.keep(piece, sent, values, residual)

    def _largest(self, values: Array) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return places, in ascending order, and values of the largest, as many as are sent."""
        for threshold in self._thresholds(values):
            places, found = self._from(threshold, values)
            if places.size >= self._sent:
                first = places.size - self._sent
                order = np.argpartition(found.view(np.int32) & _MAGNITUDE, first)[first:]
                order.sort()
                return places[order], found[order]
        # All others are zero. What has been sent may be sent again.
        missing = self._sent - places.size
        if not places.size:
            return np.zeros(missing, np.int64), np.zeros(missing, np.float32)
        return np.pad(places, (0, missing), "edge"), np.pad(found, (0, missing), "edge")

    def _thresholds(self, values: Array) -> Iterator[int]:
        """Yield magnitudes from which on enough elements should lie; at last, all but zeros."""
        loaded = (piece.load(values, self.loaded) for piece in self.pieces)
        sample = np.concatenate([x.view(np.int32)[:: self._stride] & _MAGNITUDE for x in loaded])
        sample.sort()
        expected = self._sent * sample.size / sum(piece.size for piece in self.pieces)
        rank = math.ceil(expected + 3 * math.sqrt(expected))
        while rank <= sample.size and sample[-rank] > 1:
            yield int(sample[-rank])
            rank *= 2
        yield 1

    def _from(self, threshold: int, values: Array) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return places and values of the elements of at least a magnitude."""
        places, found = [], []
        for piece in self.pieces:
            loaded = piece.load(values, self.loaded)
            bits, above = self._bits[: piece.size], self._above[: piece.size]
            np.bitwise_and(loaded.view(np.int32), _MAGNITUDE, out=bits)
            np.greater_equal(bits, threshold, out=above)
            here = np.flatnonzero(above)
            places.append(here + piece.start)
            found.append(loaded[here])
        return np.concatenate(places), np.concatenate(found)

    def read(self, piece: Piece, sent: Sequence[Array], out: Floats) -> None:
        """Put the values of a piece in their places, zeros elsewhere."""
        counts, values, places = sent
        first = int(counts[: piece.number].sum())
        own = slice(first, first + int(counts[piece.number]))
        out[:] = 0
        out[places[own]] = values[own]

    def check(self, sent: Sequence[Array]) -> None:
        """Refuse counts that do not add up, places outside their piece, and NaN and infinity."""
        counts, values, places = sent
        if counts.sum() != self._sent:
            raise RemoteProtocolError(
                f"Expected {self._sent} values in a payload, got {counts.sum()}."
            )
        sizes = np.repeat([piece.size for piece in self.pieces], counts)
        if not (places < sizes).all():
            raise RemoteProtocolError("Expected places inside of a piece, got one behind its end.")
        if not is_finite(values):
            raise RemoteProtocolError("Expected finite values in a payload, got NaN or infinity.")


@dataclass(frozen=True, repr=False)
class TopK(Codec):
    """The largest magnitudes of each dtype's parameters.

    Parameters
    ----------
    fraction : float
        How many of all elements are sent; in (0, 1].
    feedback : bool
        Must be True.

    Raises
    ------
    CodecError
        The fraction is out of range, or without feedback.
    """

    fraction: float = 0.01

    name = "topk"
    parameter = "fraction"
    biased = True
    sparse = True
    ratio = 66.0
    rule = "a where |a| is among the largest fraction, else 0; six bytes each"
    source = "Aji and Heafield 2017, arXiv:1704.05021; Stich et al. 2018, arXiv:1809.07599"
    when = "The slowest network, or updates that are mostly zero anyway."

    def __post_init__(self) -> None:
        number = isinstance(self.fraction, Real) and not isinstance(self.fraction, bool)
        if not (number and 0 < self.fraction <= 1):
            raise CodecError(
                f"Codec topk: expected a fraction above 0 and up to 1, got {self.fraction!r}."
            )
        object.__setattr__(self, "fraction", float(self.fraction))  # one number, one name
        super().__post_init__()

    def parts(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> Sequence[Part]:
        """Return one part; raw if that is not longer."""
        return [smaller(dtype, ranges, lambda r: TopKPart(r, self.fraction))]
