"""A shard's center, which can tell what would come of a push."""

from __future__ import annotations

import numpy as np

from ....common.arrays import Buffer
from ..push import Push
from ..rows.center import RowCenter
from ..rules import strict
from ..stripes import vectors_of


class ShardCenter(RowCenter):
    """See `RowCenter`."""

    def preview(self, update: Buffer, push: Push, out: Buffer) -> int | None:
        """Fill in what the worker would adopt if a push were merged now; merge nothing.

        Parameters
        ----------
        update : ndarray, shape (layout.nbytes,), uint8
            Stays as it is.
        push : Push
        out : ndarray, shape (layout.nbytes,), uint8, writeable
            Undefined if the method returns None.

        Returns
        -------
        int or None
            The version that the push would make. None if only a merge can tell: the rule keeps
            something between pushes, is a user's own, or a sum is beyond the dtype's range.
        """
        updates, replies = vectors_of(self.layout, update), vectors_of(self.layout, out)
        # One stripe at a time, in what stays in a core's cache.
        scratch = np.empty(max(stripe.center.nbytes for stripe in self._stripes), np.uint8)
        with self._enter() as chain:
            bound, info = self._ticket(push)
            if not bound.stateless:
                return None
            for stripe, rule in zip(self._stripes, bound.stripes, strict=True):
                chain.advance(stripe.lock)
                center = scratch[: stripe.center.nbytes].view(stripe.center.dtype)
                reply = stripe.of(replies)
                center[...], reply[...] = stripe.center, stripe.of(updates)
                try:
                    strict.run(rule.merge, center, reply, info)
                except FloatingPointError:
                    return None
        return info.pushes + 1
