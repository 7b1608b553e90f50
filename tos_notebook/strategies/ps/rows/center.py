"""A center that knows when each row of its tables has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....combiners.base import Combiner, PushInfo, merges_rows
from ....common.arrays import Array, Buffer
from ..center import Center
from ..non_finite import find_non_finite
from ..push import Merge, Push
from ..rules import Bound
from ..stripes import Chain
from .update import RowUpdate


class RowCenter(Center):
    """See `Center`; what is merged, or read, may be a `RowUpdate`, too."""

    # Counts all that changes the parameters. Unlike the version it never goes back.
    _time = 0

    def seize(self) -> bool:
        """See `Center.seize`: what comes may be rows, which are merged in turn."""
        return False

    def merge(self, update: Buffer | RowUpdate, push: Push) -> Merge:
        """See `Center.merge`.

        A combiner that wants all rows gets those that the worker has not changed as they are.
        """
        if not isinstance(update, RowUpdate):
            return super().merge(update, push)
        if not push.finite and not update.finite:
            error = find_non_finite(self.layout, update.expand(self._center, False))
            if error is not None:
                raise error
        with self._enter() as chain:
            bound, info = self._ticket(push)
            if merges_rows(bound.combiner):
                self._strictly(bound, info, self._merge_by_row, chain, bound, update, info)
                return Merge(info.pushes + 1, info.staleness)
        pushes = push.pushes or bound.combiner.pushes
        buffer = update.expand(self.read()[0], pushes == "weights")
        merged = super().merge(buffer, push)
        update.replace(buffer)
        update.time = 0
        return merged

    def _merge_by_row(self, chain: Chain, bound: Bound, update: RowUpdate, info: PushInfo) -> None:
        update.begin()
        update.time, vectors = self._time + 1, update.vectors
        own = bound.combiner.keeps_own
        count: Callable[[], None] | None = self._count
        for stripe, rule in zip(self._stripes, bound.stripes, strict=True):
            chain.advance(stripe.lock, count)
            count = None
            if stripe.stamps is None:
                rule.merge(stripe.center, stripe.of(vectors), info)
            else:
                update.merge(stripe, rule, info, own)

    def _merge_stripes(
        self, chain: Chain, rules: Sequence[Combiner], updates: Sequence[Array], info: PushInfo
    ) -> None:
        time, count = self._time + 1, self._count
        between: Callable[[], None] | None = count
        for stripe, rule, update in zip(self._stripes, rules, updates, strict=True):
            chain.advance(stripe.lock, between)
            between = None
            rule.merge(stripe.center, update, info)
            if stripe.stamps is not None:
                stripe.stamps.mark_all(time)

    def _merge_whole(self, bound: Bound, update: Buffer, info: PushInfo) -> None:
        # Before it: who reads meanwhile gets all rows, now and the next time.
        self._mark_all(self._time + 1)
        super()._merge_whole(bound, update, info)

    def read(
        self, out: Buffer | RowUpdate | None = None, patience: float | None = None
    ) -> tuple[Buffer, int]:
        """See `Center.read`; a `RowUpdate` collects what has changed since the worker's."""
        if not isinstance(out, RowUpdate):
            return super().read(out, patience)
        out.begin()
        vectors, first = out.vectors, self._stripes[0]
        with self._enter(first.lock, patience) as chain:
            version, out.time = self.version, self._time
            for stripe in self._stripes:
                if stripe is not first:
                    chain.advance(stripe.lock)
                if stripe.stamps is None:
                    stripe.of(vectors)[...] = stripe.center
                else:
                    out.collect(stripe)
        return out.dense, version

    def load(self, buffer: Buffer) -> None:
        """See `Center.load`."""
        self._time += 1
        self._mark_all(self._time)
        super().load(buffer)

    def _mark_all(self, time: int) -> None:
        for stripe in self._stripes:
            if stripe.stamps is not None:
                stripe.stamps.mark_all(time)

    def _count(self) -> None:
        super()._count()
        self._time += 1
