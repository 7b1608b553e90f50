"""The center: the one instance of the parameters that pushes are merged into.

Built-in rules merge in place, stripe by stripe. A merge takes the next stripe's lock
before it lets the present one go, so merges run at the same time, one behind the other,
and none overtakes: every stripe sees the pushes in one order, that of their versions. Every
reply and every `Center.read` therefore is the center of exactly one version.

Users' own rules keep other pushes out: they merge into copies, all results are checked, and only
then is anything committed, under the locks of all stripes. Meanwhile readers see the version
before: they need the stripes, and not the gate.

A rule's state is here beside the center, cut in the same pieces: the state of a stripe is
guarded by the stripe's lock. It begins empty with the store, which lives for one run, and
with every `Center.swap`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ...combiners.base import Combiner, Part, PushInfo, prepares
from ...combiners.staging import stage
from ...common.arrays import Array, Buffer
from ...errors import CheckpointError, CombinerError, NonFiniteUpdate, RemoteProtocolError
from ...layout import Layout
from ...persist.values import encode
from ...transport.fast_path import NoPath, Path, new_path
from .non_finite import find_non_finite, look
from .push import Copied, Merge, Push
from .rules import Bound, bind, merged_in_part, prepare, put_back, strict
from .stripes import STRIPE_BYTES, Chain, Lengths, alone, as_lengths, cut, drain, seize, vectors_of

MERGE_TIMEOUT = 300.0
"""Seconds that a push waits for its turn."""


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
    stripe_bytes : int or Lengths
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
        stripe_bytes: int | Lengths = STRIPE_BYTES,
        patience: float = MERGE_TIMEOUT,
    ) -> None:
        self.layout = layout
        self.stripe_bytes = as_lengths(stripe_bytes).dense
        self._patience = patience
        self._torn: str | None = None
        self._gate = threading.Lock()
        self._center = layout.allocate()
        long = layout.tables or layout.nbytes > STRIPE_BYTES
        self.path = None if long else new_path(self._center)
        # Has the version, which changes under both the gate's lock and the first stripe's, or on
        # the fast path, while neither is held: either will do to read it.
        self._counted: Path | NoPath = self.path or NoPath()
        self._tensors = layout.tensors(self._center)
        self._stripes = tuple(cut(layout, self._center, as_lengths(stripe_bytes)))
        self._bound = self._bind(combiner)
        self._by_pushes = {combiner.pushes: self._bound}
        self.load(initial)

    @property
    def version(self) -> int:
        """Count of committed pushes."""
        return self._counted.version

    def open_path(self) -> Path | None:
        """Return the fast path, set to merge as the combiner does; None if it cannot."""
        parts = self._bound.parts
        return self.path if self.path is not None and parts and self.path.use(parts) else None

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
            The base version is in the future.
        LocalProtocolError
            The buffer does not fit the layout.
        WaitTimeout
            Another push's combiner did not end in time.
        """
        vectors, combiner = vectors_of(self.layout, update), self._bound.combiner
        plain = push.finite and not combiner.compares
        spoiled = None if plain else look(self.layout, combiner, update, push)
        with self._enter() as chain:
            bound, info = self._ticket(push)
            if bound.combiner is not combiner:
                spoiled = look(self.layout, bound.combiner, update, push)
            if spoiled is not None:
                info = info._replace(finite=False)
            if bound.combiner.striped:
                self._merge_striped(chain, bound, vectors, info)
            else:
                self._merge_whole(bound, update, info)
        return Merge(info.pushes + 1, info.staleness, spoiled)

    def seize(self) -> bool:
        """Take the center for one short merge, if it is to be had at once; return whether it is."""
        if not (self._bound.at_once and self._gate.acquire(blocking=False)):
            return False
        # The gate is held: the combiner stays as it is.
        if self._bound.at_once and seize(self._stripes):
            self._counted.hold()
            return True
        self._gate.release()
        return False

    def release(self) -> None:
        """Give back what was seized."""
        self._counted.release()
        for stripe in self._stripes:
            stripe.lock.release()
        self._gate.release()

    def merge_seized(self, update: Buffer, push: Push) -> Merge:
        """Merge a finite update while the center is seized; see `merge`."""
        vectors = vectors_of(self.layout, update)
        bound, info = self._ticket(push)
        self._count()
        try:
            for stripe, rule in zip(self._stripes, bound.stripes, strict=True):
                strict.run(rule.merge, stripe.center, stripe.of(vectors), info)
        except BaseException as error:
            raise self._spoil(bound, error) from error
        return Merge(info.pushes + 1, info.staleness)

    def _spoil(self, bound: Bound, error: BaseException) -> CombinerError:
        # Before the lock of a stripe is released: a snapshot may follow.
        self.tear(f"Combiner {bound.combiner.name} has merged a push in part.")
        return merged_in_part(bound.combiner.name, error)

    def require(self, push: Push) -> None:
        """Refuse a push that could not be merged, whatever its update.

        Raises
        ------
        RemoteProtocolError
            The base version is in the future, or it was made for another combiner.
        """
        self._ticket(push)

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """Copy the center; see `Parameters.read`. Padding between segments is left as it is."""
        buffer = self.layout.allocate() if out is None else out
        vectors = vectors_of(self.layout, buffer)
        first = self._stripes[0]
        with self._enter(first.lock, patience) as chain:
            version = self.version
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
        """Refuse every `snapshot` from now on: the center is not what the ledger says.

        Parameters
        ----------
        why : str
            A sentence for the caller of `snapshot`; the first counts.
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
        found = find_non_finite(self.layout, buffer)
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
        vectors, arrays = vectors_of(self.layout, buffer), list[Array]()
        with self._enter() as chain:
            entered()
            version, bound = self.version, self._bound
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
        """Continue, before the first push, from a `snapshot` of a like combiner.

        Raises
        ------
        CheckpointError
            It is of other parameters, or of another combiner; nothing was changed.
        """
        try:
            version, bound = int(copied.version), self._bind(self.combiner)
            put_back(bound, copied, self.layout.nbytes)
        except Exception as error:
            name = self.combiner.name
            raise CheckpointError(
                f"Expected the state of combiner {name} over parameters of {self.layout.nbytes} "
                f"bytes; got that of another combiner or other parameters: {error}"
            ) from error
        self._bound = self._by_pushes[bound.combiner.pushes] = bound
        self.load(copied.center)
        self._counted.version = version

    @property
    def center(self) -> Buffer:
        """The parameters themselves, not a copy: for when no worker pushes any more."""
        return self._center

    def load(self, buffer: Buffer) -> None:
        """Replace the center by a copy of `buffer`; the version stays."""
        vectors = vectors_of(self.layout, buffer)
        with self._enter() as chain:
            for stripe in self._stripes:
                chain.advance(stripe.lock)
                stripe.center[...] = stripe.of(vectors)

    def go_on(self, version: int, torn: str | None) -> None:
        """Count on from a version, before the first push: another strategy has trained so far."""
        self._counted.version, self._torn = version, torn

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
            self._counted.forget()

    def _bind(self, combiner: Combiner) -> Bound:
        return bind(combiner, self.layout, self._stripes, self._tensors)

    def _enter(self, first: threading.Lock | None = None, patience: float | None = None) -> Chain:
        patience = self._patience if patience is None else patience
        return Chain(first or self._gate, patience, self._name, self._counted)

    def _name(self) -> str:
        return self._bound.combiner.name

    def _count(self) -> None:
        self._counted.version += 1

    def _ticket(self, push: Push) -> tuple[Bound, PushInfo]:
        if self._counted.raised:
            raise self._spoil(self._bound, FloatingPointError("overflow encountered in add"))
        version = self.version
        staleness = version - push.base_version
        if staleness < 0:
            raise RemoteProtocolError(
                f"Worker {push.worker}: expected a base version of at most {version}, "
                f"got {push.base_version}."
            )
        bound = self._by_pushes.get(push.pushes or self._bound.combiner.pushes)
        if bound is None:
            raise RemoteProtocolError(
                f"Worker {push.worker} pushed {push.pushes!r}; expected "
                f"{self.combiner.pushes!r} for combiner {self.combiner.name}."
            )
        return bound, PushInfo(
            push.worker, staleness, push.steps, push.samples, push.workers, version
        )

    def _merge_striped(
        self, chain: Chain, bound: Bound, vectors: Sequence[Array], info: PushInfo
    ) -> None:
        updates = [vectors[stripe.segment][stripe.span] for stripe in self._stripes]
        if prepares(bound.combiner):
            both = zip(bound.stripes, self._stripes, updates, strict=True)
            self._prepare(bound.combiner, [Part(r, s.center, u) for r, s, u in both], info)
        self._strictly(bound, info, self._merge_stripes, chain, bound.stripes, updates, info)

    def _strictly(
        self, bound: Bound, info: PushInfo, merge: Callable[..., None], *arguments: object
    ) -> None:
        """Merge stripes; tear the store if that fails in the middle."""
        try:
            strict.run(merge, *arguments)
        except BaseException as error:
            if self.version == info.pushes:
                # The first stripe was not free: nothing has begun.
                raise
            raise self._spoil(bound, error) from error

    def _merge_stripes(
        self, chain: Chain, rules: Sequence[Combiner], updates: Sequence[Array], info: PushInfo
    ) -> None:
        count: Callable[[], None] | None = self._count
        for stripe, rule, update in zip(self._stripes, rules, updates, strict=True):
            chain.advance(stripe.lock, count)
            count = None
            rule.merge(stripe.center, update, info)

    def _merge_whole(self, bound: Bound, update: Buffer, info: PushInfo) -> None:
        drain(self._stripes, self._patience, lambda: bound.combiner.name)
        updates = self.layout.tensors(update)
        rules = bound.tensors
        parts = [
            Part(rules[name], self._tensors[name].reshape(-1), updates[name].reshape(-1))
            for name in rules
        ]
        if prepares(bound.combiner):
            self._prepare(bound.combiner, parts, info)
        proposals = stage(rules, self._tensors, updates, info)
        with alone(self._stripes, self._patience, lambda: bound.combiner.name):
            for name, proposal in proposals.items():
                self._tensors[name][...] = proposal.center
                updates[name][...] = proposal.reply
                rules[name] = proposal.rule
            self._count()

    def _prepare(self, combiner: Combiner, parts: Sequence[Part], info: PushInfo) -> None:
        drain(self._stripes, self._patience, lambda: combiner.name)
        prepare(combiner, parts, info)
