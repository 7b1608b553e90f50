"""What a codec is: how an update, or a reply, is turned into few bytes.

A :class:`Codec` holds parameters only. Bound to a layout it gives a :class:`Coder`, which owns
all the memory it needs.

Error feedback is not kept here: the caller keeps what `Coder.encode` leaves in `residual`
and adds it to the next update (Seide et al. 2014; Karimireddy et al. 2019, arXiv:1901.09847).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..common.arrays import Buffer, aligned_empty
from ..common.hashing import nth_hash
from ..errors import CodecError, RemoteProtocolError
from ..layout import Layout
from .parts import Part, Range, Raw, ranges_of


class Coder:
    """A codec bound to a layout, with all the memory it needs. For one thread at a time.

    Parameters
    ----------
    layout : Layout
    parts : sequence of sequence of Part
        Those of each of the layout's segments.
    """

    nbytes: int
    """Length of every payload: a function of codec and layout alone."""

    def __init__(self, layout: Layout, parts: Sequence[Sequence[Part]]) -> None:
        self.layout = layout
        self.nbytes = 0
        self._parts: list[tuple[int, slice, Part]] = []
        for segment, members in enumerate(parts):
            for part in members:
                start = -(-self.nbytes // 8) * 8  # numpy is slow at numbers that are not aligned
                self.nbytes = start + part.nbytes
                self._parts.append((segment, slice(start, self.nbytes), part))
        self._payload = aligned_empty(self.nbytes)
        self._payload[:] = 0
        # Takes memory only once something is written there.
        self._work = aligned_empty(layout.nbytes)

    def encode(self, update: Buffer, key: int, residual: Buffer | None = None) -> Buffer:
        """Return an update in few bytes.

        Parameters
        ----------
        update : ndarray, shape (layout.nbytes,), uint8
            Finite values. Padding has no influence.
        key : int
            Seeds stochastic rounding; a new one for each update. Encoding the same update once
            more under the same key, as for a retry, gives the same bytes.
        residual : ndarray, shape (layout.nbytes,), uint8, optional
            On return it holds ``update - decode(payload)``. It may be `update` itself; its
            padding is left as it is.

        Returns
        -------
        ndarray, shape (nbytes,), uint8
            The coder's own memory: valid until the next call.

        Raises
        ------
        NonFiniteUpdate
            The update holds NaN, infinity, or values too large for its scales (from 2**126 on).
            bf16 and fp16 make the latter two their largest number instead, and what travels as
            it is (fp32, vectors with powersgd) is not looked at. `residual` is then undefined.
        """
        values = self.layout.vectors(update)
        kept = None if residual is None else self.layout.vectors(residual)
        for number, (segment, span, part) in enumerate(self._parts):
            rest = None if kept is None else kept[segment]
            part.encode(values[segment], self._payload[span], nth_hash(key, number), rest)
        return self._payload

    def decode(self, payload: Buffer, out: Buffer) -> None:
        """Write the update that a payload stands for.

        Parameters
        ----------
        payload : ndarray, shape (nbytes,), uint8
        out : ndarray, shape (layout.nbytes,), uint8
            Every parameter is written, and finite; padding is left as it is.

        Raises
        ------
        RemoteProtocolError
            The payload has another length, or holds what no encoder writes. `out` is then
            undefined.
        """
        self._check(payload)
        vectors = self.layout.vectors(out)
        for segment, span, part in self._parts:
            part.decode(payload[span], vectors[segment])

    def add(self, payload: Buffer, out: Buffer) -> None:
        """Add the update that a payload stands for to `out`; see `Coder.decode`."""
        self._check(payload)
        vectors = self.layout.vectors(out)
        for segment, span, part in self._parts:
            part.add(payload[span], vectors[segment])

    def follow(self, values: Buffer, known: Buffer, key: int) -> Buffer:
        """Return in few bytes what leads from `known` towards `values`, and add it to `known`.

        What `add` makes of the payload is equal to the bit.

        Parameters
        ----------
        values, known : ndarray, shape (layout.nbytes,), uint8
            Finite values. Padding has no influence.
        key : int
            As for `encode`.

        Returns
        -------
        ndarray, shape (nbytes,), uint8
            The coder's own memory: valid until the next call.

        Raises
        ------
        NonFiniteUpdate
            As for `encode`; `known` is then undefined.
        """
        vectors = (self.layout.vectors(buffer) for buffer in (values, known, self._work))
        new, old, work = (list(each) for each in vectors)
        for number, (segment, span, part) in enumerate(self._parts):
            own = self._payload[span]
            part.follow(new[segment], old[segment], own, nth_hash(key, number), work[segment])
        return self._payload

    def _check(self, payload: Buffer) -> None:
        if payload.shape != (self.nbytes,):
            raise RemoteProtocolError(
                f"Expected a payload of {self.nbytes} bytes for {self.layout}, got {payload.size}. "
                "Both sides must use one codec."
            )


@dataclass(frozen=True, repr=False)
class Codec(ABC):
    """How updates are encoded. Immutable; its string is its canonical name: ``topk:0.01+ef``.

    Parameters
    ----------
    feedback : bool
        Whether what one payload misses is to be added to the next update.

    Raises
    ------
    CodecError
        A parameter is out of range, or `feedback` is not what the codec needs.
    """

    feedback: bool = field(default=False, kw_only=True)

    name: ClassVar[str]
    """The family's name."""
    parameter: ClassVar[str] = ""
    """The field that a name gives behind a colon, if any."""
    lossless: ClassVar[bool] = False
    """Whether what comes out is what went in, to the bit."""
    sparse: ClassVar[bool] = False
    """Whether most values come out as zeros, so that whole updates cannot be compared."""
    biased: ClassVar[bool] = False
    """Whether the errors would add up, so that error feedback is required."""
    by_chance: ClassVar[bool] = False
    """Whether chance decides, without error feedback, where to round up."""
    ratio: ClassVar[float]
    """How many times smaller a float32 update of a network of dense layers becomes."""
    rule: ClassVar[str]
    """What is sent."""
    source: ClassVar[str]
    """Where it was published."""
    when: ClassVar[str]
    """When to choose it."""

    def __post_init__(self) -> None:
        if self.biased and not self.feedback:
            raise CodecError(
                f"Codec {self} needs error feedback: without it, what it leaves out is lost and "
                f"the model learns less. Write {self}+ef."
            )
        if self.lossless and self.feedback:
            raise CodecError(
                f"Codec {self.name} loses nothing, so it has no error to feed back. "
                f"Write {self.name}."
            )

    def bind(self, layout: Layout) -> Coder:
        """Return a coder for updates of one layout. Integers travel as they are.

        Parameters
        ----------
        layout : Layout
            The parameters' names, shapes and dtypes.

        Returns
        -------
        Coder
            With all the memory that it needs, some of the size of one update.
        """
        parts: list[Sequence[Part]] = []
        for segment in layout.segments:
            dtype, ranges = np.dtype(segment.dtype), ranges_of(layout, segment)
            coded = dtype.kind == "f" and ranges
            parts.append(self.parts(dtype, ranges) if coded else [Raw(dtype, ranges)])
        return Coder(layout, parts)

    @abstractmethod
    def parts(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> Sequence[Part]:
        """Return the parts that code all tensors of a floating-point segment.

        Parameters
        ----------
        dtype : dtype
            The segment's.
        ranges : sequence of Range
            Where its tensors lie, and their shapes.

        Returns
        -------
        sequence of Part
            Together they cover the ranges, each tensor once.
        """

    def __str__(self) -> str:
        given = f":{getattr(self, self.parameter)}" if self.parameter else ""
        return f"{self.name}{given}{'+ef' if self.feedback else ''}"

    __repr__ = __str__


class FP32(Codec):
    """Every value as it is, in its own dtype."""

    name = "fp32"
    lossless = True
    ratio = 1.0
    rule = "C(a) = a"
    source = "McMahan et al. 2017, arXiv:1602.05629"
    when = "The default: the network is fast or the model is small."

    def parts(self, dtype: np.dtype[Any], ranges: Sequence[Range]) -> Sequence[Part]:
        """Return one part, which copies."""
        return [Raw(dtype, ranges)]
