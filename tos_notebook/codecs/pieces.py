"""Tensors cut into pieces, so that what is computed of one stays in a core's cache.

A piece counts elements without the padding between tensors, and is computed in float32: in
place where float32 values lie in one run, else in a copy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..common.arrays import Array, Buffer
from .parts import Floats, Part, Range, fields

PIECE = 1 << 16
"""Elements; a multiple of every codec's bucket."""

_SINGLE = np.dtype(np.float32)


class Piece(NamedTuple):
    """Some elements of a segment."""

    number: int
    start: int
    """The first of them, counted without padding."""
    size: int
    runs: tuple[tuple[slice, slice], ...]
    """Where they lie in the segment's vector, and in the piece."""

    @property
    def span(self) -> slice:
        """Its elements, counted without padding."""
        return slice(self.start, self.start + self.size)

    def view(self, vector: Array) -> Floats | None:
        """Return a view of the elements of `vector` if they are float32 in one run."""
        return vector[self.runs[0][0]] if self._direct(vector) else None

    def load(self, vector: Array, scratch: Floats) -> Floats:
        """Return the elements of `vector`: a view, or copied into `scratch`."""
        if self._direct(vector):
            return vector[self.runs[0][0]]
        with np.errstate(over="ignore"):  # of float64; infinity is dealt with as any
            for there, here in self.runs:
                np.copyto(scratch[here], vector[there], casting="same_kind")
        return scratch[: self.size]

    def store(self, values: Floats, vector: Array) -> None:
        """Write the elements into `vector`."""
        narrowed = _narrowed(values, vector.dtype)
        for there, here in self.runs:
            vector[there] = narrowed[here]

    def add(self, values: Floats, vector: Array) -> None:
        """Add to `vector` what `store` would write there."""
        narrowed = _narrowed(values, vector.dtype)
        for there, here in self.runs:
            vector[there] += narrowed[here]

    def difference(self, one: Array, other: Array, scratch: Floats) -> Floats:
        """Return ``one - other`` of the elements of two vectors, in `scratch`."""
        with np.errstate(over="ignore"):  # of float64; infinity is dealt with as any
            for there, here in self.runs:
                np.subtract(one[there], other[there], out=scratch[here], casting="same_kind")
        return scratch[: self.size]

    def subtract(self, vector: Array, values: Floats, out: Array) -> None:
        """Write into `out` what `store` of `values` would miss of `vector`."""
        narrowed = _narrowed(values, vector.dtype)
        for there, here in self.runs:
            np.subtract(vector[there], narrowed[here], out=out[there])

    def _direct(self, vector: Array) -> bool:
        return len(self.runs) == 1 and vector.dtype == _SINGLE


def _narrowed(values: Floats, dtype: np.dtype[Any]) -> Array:
    if dtype.itemsize >= _SINGLE.itemsize:
        return values
    limits = np.finfo(dtype)
    return np.clip(values, np.float32(limits.min), np.float32(limits.max)).astype(dtype)


def cut(ranges: Sequence[Range], length: int = PIECE) -> list[Piece]:
    """Cut the elements of some tensors, one behind the other, into pieces of `length`."""
    runs: dict[int, list[tuple[slice, slice]]] = {}
    done = 0
    for start, stop in _stretches(ranges):
        while start < stop:
            number, filled = divmod(done, length)
            size = min(stop - start, length - filled)
            run = slice(start, start + size), slice(filled, filled + size)
            runs.setdefault(number, []).append(run)
            start += size
            done += size
    return [Piece(n, n * length, own[-1][1].stop, tuple(own)) for n, own in runs.items()]


def _stretches(ranges: Sequence[Range]) -> Iterator[tuple[int, int]]:
    """Yield from where to where elements lie that no padding parts."""
    begin = end = 0
    for each in ranges:
        if each.start != end:
            yield begin, end
            begin = each.start
        end = each.start + each.size
    yield begin, end


class Piecewise(Part):
    """A part that can be decoded piece by piece.

    A subclass needs `check`, `read` and `encode`, which ends with, or calls for each piece, `keep`.
    The `counts` are dtype and size of each field that a payload consists of.
    """

    def __init__(self, pieces: Sequence[Piece], *counts: tuple[type[np.generic], int]) -> None:
        self.pieces = pieces
        self.counts = counts
        self.nbytes = sum(np.dtype(dtype).itemsize * count for dtype, count in counts)
        longest = max(piece.size for piece in pieces)
        self.loaded = np.empty(longest, np.float32)
        self._decoded = np.empty(longest, np.float32)

    @abstractmethod
    def read(self, piece: Piece, sent: Sequence[Array], out: Floats) -> None:
        """Write what a payload's fields say of a piece into `out`, of its size."""

    @abstractmethod
    def check(self, sent: Sequence[Array]) -> None:
        """Raise RemoteProtocolError for fields that `read` cannot make finite values of."""

    def keep(self, piece: Piece, sent: Sequence[Array], values: Array, residual: Array) -> None:
        """Write what the payload misses of a piece into `residual`."""
        decoded = self._decoded[: piece.size]
        self.read(piece, sent, decoded)
        piece.subtract(values, decoded, residual)

    def decode(self, payload: Buffer, out: Array) -> None:
        """Read piece by piece, straight into `out` where it can take float32."""
        sent = fields(payload, *self.counts)
        self.check(sent)
        for piece in self.pieces:
            direct = piece.view(out)
            decoded = self._decoded[: piece.size] if direct is None else direct
            self.read(piece, sent, decoded)
            if direct is None:
                piece.store(decoded, out)

    def add(self, payload: Buffer, out: Array) -> None:
        """Read and add piece by piece."""
        sent = fields(payload, *self.counts)
        self.check(sent)
        for piece in self.pieces:
            self.add_piece(piece, sent, out)

    def places(self) -> Iterator[slice]:
        """See `Part.places`."""
        return (there for piece in self.pieces for there, _ in piece.runs)

    def add_piece(self, piece: Piece, sent: Sequence[Array], out: Array) -> None:
        """Add to a piece of `out` what `read` makes of a payload's fields."""
        decoded = self._decoded[: piece.size]
        self.read(piece, sent, decoded)
        piece.add(decoded, out)


class Elementwise(Piecewise):
    """A part that is encoded, too, piece by piece: a subclass needs `write`."""

    def encode(self, values: Array, payload: Buffer, key: int, residual: Array | None) -> None:
        """Write piece by piece, and compare while the piece is in the cache."""
        sent = fields(payload, *self.counts)
        for piece in self.pieces:
            self.write(piece, piece.load(values, self.loaded), sent, key)
            if residual is not None:
                self.keep(piece, sent, values, residual)

    def follow(self, values: Array, known: Array, payload: Buffer, key: int, work: Array) -> None:
        """Do all of it with a piece while it is in the cache."""
        sent = fields(payload, *self.counts)
        for piece in self.pieces:
            self.write_difference(piece, values, known, sent, key)
            self.add_piece(piece, sent, known)

    def write_difference(
        self, piece: Piece, values: Array, known: Array, sent: Sequence[Array], key: int
    ) -> None:
        """Write how a piece of one vector differs from that of another."""
        self.write(piece, piece.difference(values, known, self.loaded), sent, key)

    @abstractmethod
    def write(self, piece: Piece, values: Floats, sent: Sequence[Array], key: int) -> None:
        """Write the values of a piece into a payload's fields."""
