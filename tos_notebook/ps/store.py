"""The centre: the one instance of the parameters that pushes are merged into.

Built-in rules merge in place, stripe by stripe. A merge takes the next stripe's lock
before it lets the present one go, so merges run at the same time, one behind the other,
and none overtakes: every stripe sees the pushes in one order, that of their versions. Every
reply and every `Store.read` therefore is the centre of exactly one version.

Users' own rules get the model to themselves: they merge into copies, all results are
checked, and only then is anything committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..combiners.base import Combiner, Pushes, PushInfo
from ..combiners.staging import count_non_finite, stage
from ..errors import (
    CombinerError,
    LocalProtocolError,
    NonFiniteUpdate,
    RemoteProtocolError,
    WaitTimeout,
)
from ..params import Array, Layout

Buffer = npt.NDArray[np.uint8]


class Push(NamedTuple):
    """What a worker says about its update."""

    worker: int
    """Its partition."""
    base_version: int
    """The version it pulled last."""
    steps: int
    """Batches trained since then."""
    samples: int
    """Records in those batches."""
    workers: int
    """Active workers, as the server counts them."""
    pushes: Pushes | None = None
    """What the update is, if it may have been computed for the combiner before the last
    `Store.swap`; None for what the present one asks for."""
    finite: bool = True
    """Whether it has neither NaN nor infinity in it: workers look where the update is still in
    their core's cache, and all at the same time."""


class Merge(NamedTuple):
    """The outcome of a merge."""

    version: int
    """The version that the push made; the base of the worker's next push."""
    staleness: int
    """Versions committed between the worker's pull and the push."""


@dataclass(frozen=True, slots=True)
class _Stripe:
    center: Array
    segment: int
    span: slice
    lock: threading.Lock

    def of(self, vectors: Sequence[Array]) -> Array:
        """Return this stripe's part of another buffer's segments."""
        return vectors[self.segment][self.span]


class Store:
    """The centre parameters, their version and the combiner.

    Holds the parameters once. While a user's own combiner merges, its results exist
    besides: once more, or twice if it is an elementwise one.

    Parameters
    ----------
    layout : Layout
    initial : ndarray, shape (layout.nbytes,), uint8
        The first parameters; copied.
    combiner : Combiner
    stripe_bytes : int
        Length of a stripe. The default about stays in a core's cache; with shorter ones, the
        work around each costs more than a better use of the cache saves.
    patience : float
        Seconds to wait for other pushes before giving up.
    """

    def __init__(
        self,
        layout: Layout,
        initial: Buffer,
        combiner: Combiner,
        stripe_bytes: int = 1 << 20,
        patience: float = 300.0,
    ) -> None:
        self.layout = layout
        self._combiner = combiner
        self._by_pushes = {combiner.pushes: combiner}
        self._patience = patience
        self._version = 0
        self._gate = threading.Lock()
        self._center = layout.allocate()
        self._tensors = layout.tensors(self._center)
        self._stripes = tuple(_cut(layout.vectors(self._center), stripe_bytes))
        self.load(initial)

    @property
    def version(self) -> int:
        """Count of committed pushes."""
        return self._version

    @property
    def combiner(self) -> Combiner:
        """The combiner that the next push meets."""
        return self._combiner

    def merge(self, update: Buffer, push: Push) -> Merge:
        """Merge one push. On return `update` holds what the worker adopts.

        Parameters
        ----------
        update : ndarray, shape (layout.nbytes,), uint8, writeable
            Undefined after an error.
        push : Push

        Raises
        ------
        NonFiniteUpdate
            The worker found NaN or infinity in its update; names the first parameter that has
            any, and how many values.
        CombinerError
            The combiner raised or returned nonsense. Centre and version are unchanged,
            unless the combiner had promised with `striped` never to fail.
        RemoteProtocolError
            The base version lies in the future.
        LocalProtocolError
            The buffer does not fit the layout.
        WaitTimeout
            Another push's combiner did not end in time.
        """
        vectors = self._vectors(update)
        if not push.finite:
            self._refuse_non_finite(update)
        with self._enter() as chain:
            combiner, info = self._ticket(push)
            if combiner.striped:
                self._version += 1
                self._merge_striped(chain, combiner, vectors, info)
            else:
                self._merge_whole(combiner, update, info)
                self._version += 1
        return Merge(info.pushes + 1, info.staleness)

    def _refuse_non_finite(self, update: Buffer) -> None:
        counts = {n: count_non_finite(t) for n, t in self.layout.tensors(update).items()}
        name = next((name for name, bad in counts.items() if bad), None)
        if name is None:
            return
        others = sum(map(bool, counts.values())) - 1
        raise NonFiniteUpdate(
            f"Parameter {name!r}: expected finite values, got {counts[name]} of "
            f"{self._tensors[name].size} that are NaN or infinite"
            + (f" (as in {others} other parameters). " if others else ". ")
            + "Lower the learning rate, or look for a division by zero in the loss."
        )

    def read(self, out: Buffer | None = None) -> tuple[Buffer, int]:
        """Copy the centre.

        Parameters
        ----------
        out : ndarray, shape (layout.nbytes,), uint8, optional
            Where to; a new buffer by default. Padding between segments is left as it is.

        Returns
        -------
        tuple of ndarray and int
            The buffer, and the version it is.
        """
        buffer = self.layout.allocate() if out is None else out
        vectors = self._vectors(buffer)
        with self._enter() as chain:
            version = self._version
            for stripe in self._stripes:
                chain.advance(stripe.lock)
                stripe.of(vectors)[...] = stripe.center
        return buffer, version

    @property
    def center(self) -> Buffer:
        """The parameters themselves, not a copy: for when nobody pushes any more."""
        return self._center

    def load(self, buffer: Buffer) -> None:
        """Replace the centre by a copy of `buffer`; the version stays."""
        vectors = self._vectors(buffer)
        with self._enter() as chain:
            for stripe in self._stripes:
                chain.advance(stripe.lock)
                stripe.center[...] = stripe.of(vectors)

    def swap(self, combiner: Combiner) -> None:
        """Use another combiner from the next push on.

        Merges under way end with the old one, and so does a later push that says it was
        made for it, if the two ask for different `pushes`.
        """
        with self._enter():
            self._combiner = combiner
            self._by_pushes[combiner.pushes] = combiner

    def _enter(self) -> _Chain:
        return _Chain(self._gate, self._patience, lambda: self._combiner.name)

    def _ticket(self, push: Push) -> tuple[Combiner, PushInfo]:
        staleness = self._version - push.base_version
        if staleness < 0:
            raise RemoteProtocolError(
                f"Worker {push.worker}: expected a base version of at most {self._version}, "
                f"got {push.base_version}."
            )
        combiner = self._by_pushes.get(push.pushes or self._combiner.pushes)
        if combiner is None:
            raise RemoteProtocolError(
                f"Worker {push.worker} pushed {push.pushes!r}; expected "
                f"{self._combiner.pushes!r} for combiner {self._combiner.name}."
            )
        info = PushInfo(
            push.worker, staleness, push.steps, push.samples, push.workers, self._version
        )
        return combiner, info

    def _merge_striped(
        self, chain: _Chain, combiner: Combiner, vectors: Sequence[Array], info: PushInfo
    ) -> None:
        try:
            for stripe in self._stripes:
                chain.advance(stripe.lock)
                combiner.merge(stripe.center, stripe.of(vectors), info)
        except Exception as error:
            raise CombinerError(
                f"Combiner {combiner.name} raised {type(error).__name__}: {error}. It promised "
                "with striped=True not to; a part of the push may have been merged."
            ) from error

    def _merge_whole(self, combiner: Combiner, update: Buffer, info: PushInfo) -> None:
        for stripe in self._stripes:  # the gate is held: wait for the pushes ahead to end
            _take(stripe.lock, self._patience, lambda: combiner.name)
            stripe.lock.release()
        updates = self.layout.tensors(update)
        for name, proposal in stage(combiner, self._tensors, updates, info).items():
            self._tensors[name][...] = proposal.center
            updates[name][...] = proposal.reply

    def _vectors(self, buffer: Buffer) -> list[Array]:
        if buffer.dtype != np.uint8 or buffer.shape != (self.layout.nbytes,):
            raise LocalProtocolError(
                f"Expected a buffer of shape ({self.layout.nbytes},) of uint8, "
                f"got shape {buffer.shape} of {buffer.dtype}."
            )
        return self.layout.vectors(buffer)


class _Chain:
    """Locks taken in one order, each before the last one is let go: nobody overtakes."""

    def __init__(self, first: threading.Lock, patience: float, name: Callable[[], str]) -> None:
        self._held = first
        self._patience = patience
        self._name = name

    def __enter__(self) -> _Chain:
        _take(self._held, self._patience, self._name)
        return self

    def advance(self, lock: threading.Lock) -> None:
        """Take `lock`, then let go of the one before."""
        _take(lock, self._patience, self._name)
        self._held.release()
        self._held = lock

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.release()


def _take(lock: threading.Lock, patience: float, name: Callable[[], str]) -> None:
    # To try without a time limit first is cheaper, and mostly enough.
    if not lock.acquire(blocking=False) and not lock.acquire(timeout=patience):
        raise WaitTimeout(
            f"The parameters were not free within {patience:g} s: combiner {name()} is still "
            "merging another push. See whether it hangs."
        )


def _cut(vectors: Sequence[Array], stripe_bytes: int) -> Iterator[_Stripe]:
    for segment, vector in enumerate(vectors):
        length = max(1, stripe_bytes // vector.itemsize)
        for start in range(0, max(1, vector.size), length):
            span = slice(start, start + length)
            yield _Stripe(vector[span], segment, span, threading.Lock())
