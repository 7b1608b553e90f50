"""Parts of a coder: each turns some tensors of one segment into a fixed number of bytes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.arrays import Array, Buffer, is_finite
from ..errors import RemoteProtocolError
from ..layout import Layout, Segment

Floats = npt.NDArray[np.float32]

LARGEST = 2.0**126
"""What the codecs that scale take for too large: products with it stay in float32's range."""


class Range(NamedTuple):
    """Where one tensor lies in its segment's vector."""

    start: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def ranges_of(layout: Layout, segment: Segment) -> list[Range]:
    """Return where the tensors of a segment lie, those without elements left out."""
    places = zip(segment.starts, segment.indices, strict=True)
    ranges = [Range(start, layout.specs[index].shape) for start, index in places]
    return [each for each in ranges if each.size]


class Part(ABC):
    """Some tensors of one segment, and their `nbytes` bytes of a payload."""

    nbytes: int

    @abstractmethod
    def encode(self, values: Array, payload: Buffer, key: int, residual: Array | None) -> None:
        """Fill `payload`; leave in `residual`, if given, what it misses of `values`.

        Both are the segment's vectors, and may be the same; only the part's tensors are touched.
        The key decides what is left to chance. Raises NonFiniteUpdate.
        """

    @abstractmethod
    def decode(self, payload: Buffer, out: Array) -> None:
        """Write the part's tensors, and nothing else, of the segment's vector `out`.

        Raises RemoteProtocolError for a payload that no encoder writes.
        """

    @abstractmethod
    def add(self, payload: Buffer, out: Array) -> None:
        """Add to the part's tensors what `decode` would write."""

    @abstractmethod
    def places(self) -> Iterator[slice]:
        """Yield where in the segment's vector the part's tensors lie."""

    def follow(self, values: Array, known: Array, payload: Buffer, key: int, work: Array) -> None:
        """Encode how `values` differ from `known`, and add it there as `add` does.

        All are the segment's vectors. Where the difference is needed as a whole, `work` holds it.
        """
        for place in self.places():
            np.subtract(values[place], known[place], out=work[place])
        self.encode(work, payload, key, None)
        self.add(payload, known)


class Raw(Part):
    """The elements as they are."""

    def __init__(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> None:
        self.nbytes = sum(each.size for each in ranges) * dtype.itemsize
        self._dtype = dtype
        self._ranges = ranges

    def encode(self, values: Array, payload: Buffer, key: int, residual: Array | None) -> None:
        """Copy the elements; nothing is missed."""
        for place, there in self._spans():
            payload.view(self._dtype)[there] = values[place]
            if residual is not None:
                residual[place] = 0

    def decode(self, payload: Buffer, out: Array) -> None:
        """Copy the elements back."""
        elements = self._checked(payload)
        for place, there in self._spans():
            out[place] = elements[there]

    def add(self, payload: Buffer, out: Array) -> None:
        """Add the elements."""
        elements = self._checked(payload)
        for place, there in self._spans():
            out[place] += elements[there]

    def places(self) -> Iterator[slice]:
        """See `Part.places`."""
        return (place for place, _ in self._spans())

    def _checked(self, payload: Buffer) -> Array:
        elements = payload.view(self._dtype)
        if not is_finite(elements):
            raise RemoteProtocolError("Expected finite values in a payload, got NaN or infinity.")
        return elements

    def _spans(self) -> Iterator[tuple[slice, slice]]:
        end = 0
        for start, size in ((each.start, each.size) for each in self._ranges):
            yield slice(start, start + size), slice(end, end + size)
            end += size


def smaller(
    dtype: np.dtype[Any], ranges: Sequence[Range], make: Callable[[Sequence[Range]], Part]
) -> Part:
    """Return what `make` makes of some tensors if that takes fewer bytes than the elements."""
    part, raw = make(ranges), Raw(dtype, ranges)
    return part if part.nbytes < raw.nbytes else raw


def fields(payload: Buffer, *counts: tuple[type[np.generic], int]) -> list[Array]:
    """View a payload as several vectors, one behind the other, of given dtypes and sizes."""
    views, end = [], 0
    for dtype, count in counts:
        start, end = end, end + count * np.dtype(dtype).itemsize
        views.append(payload[start:end].view(dtype))
    return views
