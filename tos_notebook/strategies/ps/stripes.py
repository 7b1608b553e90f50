"""The stripes of the center, and the chain of their locks."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

import numpy as np

from ...common.arrays import ALIGNMENT, Array, Buffer
from ...errors import LocalProtocolError, WaitTimeout
from ...layout import Layout, Segment
from ...transport.fast_path import NO_PATH, NoPath, Path
from .rows.stamps import Stamps

STRIPE_BYTES = 1 << 20
"""What stays in a core's cache. With shorter stripes, the work around each costs more than a
better use of the cache saves."""

TABLE_STRIPES = 8
"""Times that length for tables: the few rows of a push are spread over all stripes."""


class Lengths(NamedTuple):
    """Most bytes of a stripe; one of a table has at least as many rows as are aligned together."""

    dense: int
    table: int
    """Of a stripe of a table."""


def as_lengths(stripe_bytes: int | Lengths) -> Lengths:
    """Return the lengths of stripes, those of tables `TABLE_STRIPES` times that of others."""
    if isinstance(stripe_bytes, Lengths):
        return stripe_bytes
    return Lengths(stripe_bytes, TABLE_STRIPES * stripe_bytes)


class Span(NamedTuple):
    """Where a stripe is."""

    segment: int
    start: int
    """Its first element in the segment."""
    stop: int


@dataclass(frozen=True, slots=True)
class Stripe:
    """A part of a segment of the center, with a lock of its own."""

    center: Array
    segment: int
    span: slice
    lock: threading.Lock
    trained: bool
    first: int
    """Its first byte in the center."""
    stamps: Stamps | None = None
    """Of the rows, if it is a part of a table."""

    def of(self, vectors: Sequence[Array]) -> Array:
        """Return this stripe's part of another buffer's segments."""
        return vectors[self.segment][self.span]


_BYTES = np.dtype(np.uint8)


def vectors_of(layout: Layout, buffer: Buffer) -> list[Array]:
    """Return a buffer's segments as vectors.

    Raises
    ------
    LocalProtocolError
        It does not fit the layout.
    """
    if buffer.dtype != _BYTES or buffer.shape != (layout.nbytes,):
        raise LocalProtocolError(
            f"Expected a buffer of shape ({layout.nbytes},) of uint8, "
            f"got shape {buffer.shape} of {buffer.dtype}."
        )
    return layout.vectors(buffer)


def spans(layout: Layout, lengths: Lengths) -> Iterator[Span]:
    """Yield where the stripes of a layout are, in the order of its bytes."""
    for number, segment in enumerate(layout.segments):
        length = _elements(segment, lengths)
        for start in range(0, max(1, segment.size), length):
            yield Span(number, start, min(start + length, segment.size))


def _elements(segment: Segment, lengths: Lengths) -> int:
    itemsize = np.dtype(segment.dtype).itemsize
    if segment.table is None:
        return max(1, lengths.dense // itemsize)
    width = segment.table[1]
    # Each begins at a multiple of ALIGNMENT: a shard's part may begin there.
    together = ALIGNMENT // math.gcd(width * itemsize, ALIGNMENT)
    return max(1, lengths.table // (width * itemsize) // together) * together * width


def cut(layout: Layout, center: Buffer, lengths: Lengths) -> Iterator[Stripe]:
    """Yield the stripes of a center, in the order of its bytes."""
    dense, vectors = len(layout.segments) - len(layout.tables), layout.vectors(center)
    for number, start, stop in spans(layout, lengths):
        segment, span = layout.segments[number], slice(start, stop)
        stamps = None
        if segment.table is not None:
            width = segment.table[1]
            stamps = Stamps(number - dense, start // width, (stop - start) // width)
        part, lock = vectors[number][span], threading.Lock()
        first = segment.offset + start * part.itemsize
        yield Stripe(part, number, span, lock, segment.trained, first, stamps)


class Chain:
    """Locks taken in one order, each before the last one is released: no push overtakes.

    Mostly each is free, and is taken without a further call. Pushes on the fast path, which take
    none of them, are kept out.
    """

    __slots__ = ("_held", "_name", "_path", "_patience")

    def __init__(
        self,
        first: threading.Lock,
        patience: float,
        name: Callable[[], str],
        path: Path | NoPath = NO_PATH,
    ) -> None:
        self._held = first
        self._path = path
        self._patience = patience
        self._name = name

    def __enter__(self) -> Chain:
        if not self._held.acquire(False):
            take(self._held, self._patience, self._name)
        self._path.hold()
        return self

    def advance(self, lock: threading.Lock, between: Callable[[], object] | None = None) -> None:
        """Take `lock`, then release the one before; call `between` while both are held."""
        if not lock.acquire(False):
            take(lock, self._patience, self._name)
        if between is not None:
            between()
        self._held.release()
        self._held = lock

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._path.release()
        self._held.release()


def take(lock: threading.Lock, patience: float, name: Callable[[], str]) -> None:
    """Take a lock; raise `WaitTimeout` if it is not free in time."""
    # To try without a time limit first is cheaper, and mostly enough.
    if not lock.acquire(blocking=False) and not lock.acquire(timeout=patience):
        raise WaitTimeout(
            f"The parameters were not free within {patience:g} s: combiner {name()} is still "
            "merging other pushes. See whether it hangs, or is too slow for so many workers: let "
            "them exchange less often."
        )


def seize(stripes: Sequence[Stripe]) -> bool:
    """Take all stripes, if all are free; return whether they are."""
    for number, stripe in enumerate(stripes):
        if not stripe.lock.acquire(blocking=False):
            for taken in stripes[:number]:
                taken.lock.release()
            return False
    return True


def drain(stripes: Sequence[Stripe], patience: float, name: Callable[[], str]) -> None:
    """Wait for the pushes ahead to end; the gate, which is held, lets no other in."""
    for stripe in stripes:
        take(stripe.lock, patience, name)
        stripe.lock.release()


@contextmanager
def alone(stripes: Sequence[Stripe], patience: float, name: Callable[[], str]) -> Iterator[None]:
    """Keep readers out, too; the gate, which is held, keeps out all who write."""
    with ExitStack() as stack:
        for stripe in stripes:
            take(stripe.lock, patience, name)
            stack.callback(stripe.lock.release)
        yield
