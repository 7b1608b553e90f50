"""The center: the one instance of the parameters that pushes are merged into.

Built-in rules merge in place, stripe by stripe. A merge takes the next stripe's lock
before it lets the present one go, so merges run at the same time, one behind the other,
and none overtakes: every stripe sees the pushes in one order, that of their versions. Every
reply and every `Center.read` therefore is the center of exactly one version.

Users' own rules keep other pushes out: they merge into copies, all results are checked, and only
then is anything committed, under the locks of all stripes. Meanwhile readers see the version
before: they need the stripes, and not the gate.

A rule's state lies here beside the center, cut in the same pieces: the state of a stripe is
guarded by the stripe's lock. It begins empty with the store, which lives for one run, and
with every `Center.swap`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import Context
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ...combiners.base import Combiner, Part, Pushes, PushInfo, prepares
from ...combiners.staging import count_non_finite, stage
from ...common.arrays import Array, Buffer, is_finite
from ...errors import (
    CheckpointError,
    CombinerError,
    LocalProtocolError,
    NonFiniteUpdate,
    RemoteProtocolError,
    WaitTimeout,
)
from ...layout import Layout
from ...persist.values import decode, encode, revive

MERGE_TIMEOUT = 300.0
"""Seconds that a push waits for its turn."""

STRIPE_BYTES = 1 << 20
"""What stays in a core's cache. With shorter stripes, the work around each costs more than a
better use of the cache saves."""


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
    `Center.swap`; None for what the present one asks for."""
    finite: bool = True
    """Whether the worker found neither NaN nor infinity in it: it looks where the update is still
    in its core's cache, and all do so at the same time. Rules that compare do not rely on it."""
    skip: bool = False
    """Whether a rule that compares may leave it out, where the worker found some."""


class Merge(NamedTuple):
    """The outcome of a merge."""

    version: int
    """The version that the push made; the base of the worker's next push."""
    staleness: int
    """Versions committed between the worker's pull and the push."""
    left_out: NonFiniteUpdate | None = None
    """Why the rule, one that compares, has given the update no voice."""


class Copied(NamedTuple):
    """A store as of one version."""

    center: Buffer
    version: int
    state: dict[str, Any]
    """Of the combiner's rules, as `checkpoint.values` encodes it."""
    arrays: list[Array]
    """Those of the state."""


@dataclass(frozen=True, slots=True)
class _Stripe:
    center: Array
    segment: int
    span: slice
    lock: threading.Lock
    trained: bool

    def of(self, vectors: Sequence[Array]) -> Array:
        """Return this stripe's part of another buffer's segments."""
        return vectors[self.segment][self.span]


class _Bound(NamedTuple):
    """A combiner, and its rules with their state."""

    combiner: Combiner
    stripes: list[Combiner]
    """One for each stripe, if the combiner is striped."""
    tensors: dict[str, Combiner]
    """One for each parameter, if it is not."""


class Center:
    """The center parameters, their version, the combiner and its state.

    Holds the parameters once, and what the combiner keeps of them. While a user's own combiner
    merges, its results exist besides: once more, or twice if it is an elementwise one.

    Parameters
    ----------
    layout : Layout
    initial : ndarray, shape (layout.nbytes,), uint8
        The first parameters; copied.
    combiner : Combiner
    stripe_bytes : int
        Length of a stripe.
    patience : float
        Seconds to wait for other pushes before giving up.

    Attributes
    ----------
    stripe_bytes : int
        A combiner's state is cut as the center is: to restore it takes the same length.
    """

    def __init__(
        self,
        layout: Layout,
        initial: Buffer,
        combiner: Combiner,
        stripe_bytes: int = STRIPE_BYTES,
        patience: float = MERGE_TIMEOUT,
    ) -> None:
        self.layout = layout
        self.stripe_bytes = stripe_bytes
        self._patience = patience
        # Changed under both the gate's lock and the first stripe's; either will do to read it.
        self._version = 0
        self._torn: str | None = None
        self._gate = threading.Lock()
        self._center = layout.allocate()
        self._tensors = layout.tensors(self._center)
        self._stripes = tuple(_cut(layout, self._center, stripe_bytes))
        self._bound = self._bind(combiner)
        self._by_pushes = {combiner.pushes: self._bound}
        self.load(initial)

    @property
    def version(self) -> int:
        """Count of committed pushes."""
        return self._version

    @property
    def combiner(self) -> Combiner:
        """The combiner that the next push meets."""
        return self._bound.combiner

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
            The combiner raised or returned nonsense. Centre, version and the combiner's state
            are unchanged, unless the combiner had promised with `striped` never to fail: then
            the store is torn.
        RemoteProtocolError
            The base version lies in the future.
        LocalProtocolError
            The buffer does not fit the layout.
        WaitTimeout
            Another push's combiner did not end in time.
        """
        vectors, combiner = self._vectors(update), self.combiner
        spoiled = self._look(combiner, update, push)
        with self._enter() as chain:
            bound, info = self._ticket(push)
            if bound.combiner is not combiner:
                spoiled = self._look(bound.combiner, update, push)
            if spoiled is not None:
                info = info._replace(finite=False)
            if bound.combiner.striped:
                self._merge_striped(chain, bound, vectors, info)
            else:
                self._merge_whole(bound, update, info)
        return Merge(info.pushes + 1, info.staleness, spoiled)

    def _look(self, combiner: Combiner, update: Buffer, push: Push) -> NonFiniteUpdate | None:
        """Look for NaN and infinity where it matters; return what a rule must leave out."""
        if push.finite and not combiner.compares:
            return None
        error = self._find_non_finite(update)
        if error is None or (combiner.compares and (push.finite or push.skip)):
            return error
        raise error

    def _find_non_finite(self, update: Buffer) -> NonFiniteUpdate | None:
        if all(map(is_finite, self.layout.vectors(update))):
            return None
        counts = {n: count_non_finite(t) for n, t in self.layout.tensors(update).items()}
        name = next(name for name, bad in counts.items() if bad)
        others = sum(map(bool, counts.values())) - 1
        return NonFiniteUpdate(
            f"Parameter {name!r}: expected finite values, got {counts[name]} of "
            f"{self._tensors[name].size} that are NaN or infinite"
            + (f" (as in {others} other parameters). " if others else ". ")
            + "Lower the learning rate, or look for a division by zero in the loss."
        )

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """Copy the center.

        Parameters
        ----------
        out : ndarray, shape (layout.nbytes,), uint8, optional
            Where to; a new buffer by default. Padding between segments is left as it is.
        patience : float, optional
            Seconds to wait for a merge in each stripe; those of the store by default.

        Returns
        -------
        tuple of ndarray and int
            The buffer, and the version it is.

        Raises
        ------
        WaitTimeout
            A push is still being merged.
        """
        buffer = self.layout.allocate() if out is None else out
        vectors = self._vectors(buffer)
        first = self._stripes[0]
        with self._enter(first.lock, patience) as chain:
            version = self._version
            first.of(vectors)[...] = first.center
            for stripe in self._stripes[1:]:
                chain.advance(stripe.lock)
                stripe.of(vectors)[...] = stripe.center
        return buffer, version

    @property
    def torn(self) -> str | None:
        """Why the center is not what the ledger says, a sentence; None while it is."""
        return self._torn

    def tear(self, why: str) -> None:
        """Let nobody take a `snapshot` any more: the center is not what the ledger says.

        Parameters
        ----------
        why : str
            A sentence for whoever asks for one; the first counts.
        """
        self._torn = self._torn or why

    def check(self, buffer: Buffer) -> NonFiniteUpdate | None:
        """Tear the store if NaN or infinity has come into the center.

        Pushes are merged on the worker's word, by rules that do not compare.

        Parameters
        ----------
        buffer : ndarray, shape (layout.nbytes,), uint8
            The center, or a copy.

        Returns
        -------
        NonFiniteUpdate or None
            What was found.
        """
        found = self._find_non_finite(buffer)
        if found is not None:
            self.tear("The parameters hold NaN or infinity.")
        return found

    def snapshot(self, entered: Callable[[], object] = lambda: None) -> Copied:
        """Copy the center and the combiner's state, as of one version.

        Pushes that come meanwhile follow stripe by stripe, as behind another push.

        Parameters
        ----------
        entered : callable
            Called once no push that comes later can be in the copy, nor another combiner.

        Raises
        ------
        CheckpointError
            The combiner keeps something that cannot be saved, or the store is torn.
        """
        buffer = self.layout.allocate()
        buffer[...] = 0
        vectors, arrays = self._vectors(buffer), list[Array]()
        with self._enter() as chain:
            entered()
            version, bound = self._version, self._bound
            where = f"Combiner {bound.combiner.name}"
            # Before the first stripe: a rule for whole parameters is free as long as the gate is.
            tensors = [[n, encode(rule, arrays, where)] for n, rule in bound.tensors.items()]
            stripes = []
            for number, stripe in enumerate(self._stripes):
                chain.advance(stripe.lock)
                stripe.of(vectors)[...] = stripe.center
                if bound.stripes:
                    stripes.append(encode(bound.stripes[number], arrays, where))
        self.check(buffer)
        # Asked last: the copy may have followed behind the very push that tore it.
        if self._torn is not None:
            raise CheckpointError(f"{self._torn} No checkpoint is written of it.")
        return Copied(buffer, version, {"stripes": stripes, "tensors": tensors}, arrays)

    def restore(self, copied: Copied) -> None:
        """Go on from what `snapshot` returned, with a combiner of the same parameters.

        To be called before the first push.

        Raises
        ------
        CheckpointError
            It is of other parameters, or of another combiner; nothing was changed.
        """
        try:
            version, bound = int(copied.version), self._bind(self.combiner)
            self._put_back(bound, copied)
        except Exception as error:
            name = self.combiner.name
            raise CheckpointError(
                f"Expected the state of combiner {name} over parameters of {self.layout.nbytes} "
                f"bytes; got that of another combiner or other parameters: {error}"
            ) from error
        self._bound = self._by_pushes[bound.combiner.pushes] = bound
        self.load(copied.center)
        self._version = version

    def _put_back(self, bound: _Bound, copied: Copied) -> None:
        """Give rules that nobody uses yet the state of a copy."""
        rules = list(zip(bound.stripes, copied.state["stripes"], strict=True))
        tensors = dict(copied.state["tensors"])
        if copied.center.shape != (self.layout.nbytes,) or tensors.keys() != bound.tensors.keys():
            raise ValueError(f"{copied.center.nbytes} bytes, {len(tensors)} tensors of their own.")
        rules += [(bound.tensors[name], saved) for name, saved in tensors.items()]
        for rule, saved in rules:
            revive(rule, decode(saved, copied.arrays))

    @property
    def center(self) -> Buffer:
        """The parameters themselves, not a copy: for when no worker pushes any more."""
        return self._center

    def load(self, buffer: Buffer) -> None:
        """Replace the center by a copy of `buffer`; the version stays."""
        vectors = self._vectors(buffer)
        with self._enter() as chain:
            for stripe in self._stripes:
                chain.advance(stripe.lock)
                stripe.center[...] = stripe.of(vectors)

    def swap(self, combiner: Combiner, entered: Callable[[], object] = lambda: None) -> None:
        """Use another combiner from the next push on.

        A new combiner begins with empty state, even one that was in use before. Merges under
        way end with the old one, and so does a later push that says it was made for it, if the
        two ask for different `pushes`.

        Parameters
        ----------
        combiner : Combiner
        entered : callable
            Called when no other push or `snapshot` can come between it and the swap.

        Raises
        ------
        CombinerError
            The combiner could not begin; nothing was changed.
        """
        bound = self._bind(combiner)
        with self._enter():
            entered()
            self._bound = self._by_pushes[combiner.pushes] = bound

    def _bind(self, combiner: Combiner) -> _Bound:
        try:
            rules = {True: combiner, False: combiner.of_statistics()}
            if combiner.striped:
                stripes = [rules[s.trained].begin(s.center) for s in self._stripes]
                return _Bound(combiner, stripes, {})
            tensors = zip(self.layout.specs, self._tensors.values(), strict=True)
            own = {spec.name: rules[spec.trained].begin(t.reshape(-1)) for spec, t in tensors}
            return _Bound(combiner, [], own)
        except Exception as error:
            raise CombinerError(
                f"Combiner {combiner.name} could not begin: {type(error).__name__}: {error}."
            ) from error

    def _enter(self, first: threading.Lock | None = None, patience: float | None = None) -> _Chain:
        patience = self._patience if patience is None else patience
        return _Chain(first or self._gate, patience, lambda: self.combiner.name)

    def _count(self) -> None:
        self._version += 1

    def _ticket(self, push: Push) -> tuple[_Bound, PushInfo]:
        staleness = self._version - push.base_version
        if staleness < 0:
            raise RemoteProtocolError(
                f"Worker {push.worker}: expected a base version of at most {self._version}, "
                f"got {push.base_version}."
            )
        bound = self._by_pushes.get(push.pushes or self.combiner.pushes)
        if bound is None:
            raise RemoteProtocolError(
                f"Worker {push.worker} pushed {push.pushes!r}; expected "
                f"{self.combiner.pushes!r} for combiner {self.combiner.name}."
            )
        info = PushInfo(
            push.worker, staleness, push.steps, push.samples, push.workers, self._version
        )
        return bound, info

    def _merge_striped(
        self, chain: _Chain, bound: _Bound, vectors: Sequence[Array], info: PushInfo
    ) -> None:
        parts = [
            Part(rule, stripe.center, stripe.of(vectors))
            for rule, stripe in zip(bound.stripes, self._stripes, strict=True)
        ]
        self._prepare(bound.combiner, parts, info)
        try:
            _strict.run(self._merge_stripes, chain, parts, info)
        except BaseException as error:
            if self._version == info.pushes:
                # The first stripe was not free: nothing has begun.
                raise
            # Before the lock of this stripe is let go: a snapshot may follow.
            self.tear(f"Combiner {bound.combiner.name} has merged a push in part.")
            raise _merged_in_part(bound.combiner.name, error) from error

    def _merge_stripes(self, chain: _Chain, parts: Sequence[Part], info: PushInfo) -> None:
        count: Callable[[], None] | None = self._count
        for stripe, (rule, center, update) in zip(self._stripes, parts, strict=True):
            chain.advance(stripe.lock, count)
            count = None
            rule.merge(center, update, info)

    def _merge_whole(self, bound: _Bound, update: Buffer, info: PushInfo) -> None:
        self._drain(bound.combiner)
        updates = self.layout.tensors(update)
        rules = bound.tensors
        parts = [
            Part(rules[name], self._tensors[name].reshape(-1), updates[name].reshape(-1))
            for name in rules
        ]
        self._prepare(bound.combiner, parts, info)
        proposals = stage(rules, self._tensors, updates, info)
        with self._alone(bound.combiner):
            for name, proposal in proposals.items():
                self._tensors[name][...] = proposal.center
                updates[name][...] = proposal.reply
                rules[name] = proposal.rule
            self._count()

    def _prepare(self, combiner: Combiner, parts: Sequence[Part], info: PushInfo) -> None:
        if not prepares(combiner):
            return
        self._drain(combiner)
        try:
            combiner.prepare(parts, info)
        except CombinerError:
            raise
        except Exception as error:
            raise CombinerError(
                f"Combiner {combiner.name}: raised {type(error).__name__}: {error} in prepare. "
                "The push was not merged."
            ) from error

    def _drain(self, combiner: Combiner) -> None:
        """Wait for the pushes ahead to end; the gate, which is held, lets no other in."""
        for stripe in self._stripes:
            _take(stripe.lock, self._patience, lambda: combiner.name)
            stripe.lock.release()

    @contextmanager
    def _alone(self, combiner: Combiner) -> Iterator[None]:
        """Keep readers out, too; the gate, which is held, keeps out all who write."""
        with ExitStack() as stack:
            for stripe in self._stripes:
                _take(stripe.lock, self._patience, lambda: combiner.name)
                stack.callback(stripe.lock.release)
            yield

    def _vectors(self, buffer: Buffer) -> list[Array]:
        if buffer.dtype != np.uint8 or buffer.shape != (self.layout.nbytes,):
            raise LocalProtocolError(
                f"Expected a buffer of shape ({self.layout.nbytes},) of uint8, "
                f"got shape {buffer.shape} of {buffer.dtype}."
            )
        return self.layout.vectors(buffer)


class _Strict(threading.local):
    """A context of each thread in which numpy raises for what is beyond a dtype's range.

    The processor notes an overflow by itself, so that no look at the sums is needed. To enter
    such a context costs a small push a third of what `np.errstate` costs.
    """

    def __init__(self) -> None:
        self.run = Context().run
        self.run(np.seterr, over="raise", divide="raise", invalid="raise")


_strict = _Strict()


class _Chain:
    """Locks taken in one order, each before the last one is let go: nobody overtakes."""

    def __init__(self, first: threading.Lock, patience: float, name: Callable[[], str]) -> None:
        self._held = first
        self._patience = patience
        self._name = name

    def __enter__(self) -> _Chain:
        _take(self._held, self._patience, self._name)
        return self

    def advance(self, lock: threading.Lock, between: Callable[[], object] | None = None) -> None:
        """Take `lock`, then let go of the one before; call `between` while both are held."""
        _take(lock, self._patience, self._name)
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
        self._held.release()


def _merged_in_part(name: str, error: BaseException) -> CombinerError:
    what = f"raised {type(error).__name__}: {error}. It promised with striped=True not to"
    if isinstance(error, FloatingPointError):
        what = (
            f"expected sums within the range of the parameters' dtype, got one beyond it ({error})."
            " The training diverges: lower the learning rate"
        )
    return CombinerError(
        f"Combiner {name} {what}. A part of the push is in the parameters, and no checkpoint is "
        "written of them. tos.resume continues from the last one before."
    )


def _take(lock: threading.Lock, patience: float, name: Callable[[], str]) -> None:
    # To try without a time limit first is cheaper, and mostly enough.
    if not lock.acquire(blocking=False) and not lock.acquire(timeout=patience):
        raise WaitTimeout(
            f"The parameters were not free within {patience:g} s: combiner {name()} is still "
            "merging other pushes. See whether it hangs, or is too slow for so many workers: let "
            "them exchange less often."
        )


def _cut(layout: Layout, center: Buffer, stripe_bytes: int) -> Iterator[_Stripe]:
    for segment, vector in enumerate(layout.vectors(center)):
        length = max(1, stripe_bytes // vector.itemsize)
        trained = layout.segments[segment].trained
        for start in range(0, max(1, vector.size), length):
            span = slice(start, start + length)
            yield _Stripe(vector[span], segment, span, threading.Lock(), trained)
