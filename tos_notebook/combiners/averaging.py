"""Rules that take one step of a server optimizer on the mean of K pushes.

The synchronous originals average the changes of one round of n workers. Read
asynchronously, a round is the next K pushes, from any workers. What a worker adopts is
the center as it is after its push; its change counts when the round is full. A round that is
not full when a run ends, or the combiner is swapped, is dropped; with K = n, which the last
workers to leave make small, nothing is left over at the end of a run.

Notation: Δ̄ the mean change, m momentum, v second moment, η `lr`, all beginning at 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from itertools import takewhile
from typing import ClassVar

import numpy as np

from ..common.arrays import Array
from ..common.checks import at_least_one, below, positive
from .arithmetic import move, wide_dtype, widen_delta
from .base import Combiner, PushInfo, StatefulCombiner
from .lazily import NO_ROWS, merge_whole, on_rows

REMEMBERED = 1000
"""Steps of the server that a push can have missed; those that missed more count as these."""


class AveragingCombiner(StatefulCombiner):
    """Collect K pushes, then take one `step` on the mean of their changes.

    Parameters
    ----------
    k : int, optional
        Pushes of a round; by default the active workers at each push.

    Raises
    ------
    ConfigError
        `k` is below 1.
    """

    striped = True
    moments: ClassVar[tuple[str, ...]] = ()
    """Attributes that `step` uses: arrays of the slice's shape. With `by_row` it gets a few rows of
    center and moments, so that those of a row are from the last round that changed it."""

    def __init__(self, k: int | None = None) -> None:
        self.k = None if k is None else at_least_one(f"{type(self).__name__}(k)", k)

    @abstractmethod
    def step(self, center: Array, change: Array) -> None:
        """Move `center` by the mean of a round's changes.

        Parameters
        ----------
        center : ndarray
            The server's parameters, or any slice of them; changed in place.
        change : ndarray, of the same shape
            The mean Δ̄, in the dtype to compute in: float32, or wider. It may be overwritten.
        """

    def weight(self, push: PushInfo) -> float:
        """Return by what a change is multiplied before it is added up.

        Parameters
        ----------
        push : PushInfo
            The push that it came with.
        """
        return 1

    def divisor(self) -> float:
        """Return what the sum of a round's changes is divided by."""
        return self.count

    def due(self, push: PushInfo) -> int:
        """Return how many pushes make a round.

        Parameters
        ----------
        push : PushInfo
            The latest.
        """
        return self.k or push.workers

    def reset(self, like: Array) -> None:
        """Set the empty state; see `StatefulCombiner.reset`."""
        self.count = 0
        self.total = np.zeros(like.shape, wide_dtype(like.dtype))
        # Of a table, those that the round has changed: `total` is 0 elsewhere. None for all.
        self.rows: Array | None = None

    def _weighted(self, update: Array, push: PushInfo) -> Array:
        change = widen_delta(update)
        weight = self.weight(push)
        if weight != 1:
            change *= change.dtype.type(weight)
        self.count += 1
        return change

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Add the worker's change to the round; see `Combiner.merge`."""
        change = self._weighted(update, push)
        self.rows = None
        if self.count >= self.due(push):
            if self.count > 1:
                change += self.total
                change /= change.dtype.type(self.divisor())
            self.count = 0
            self.step(center, change)
        elif self.count == 1:
            self.total[...] = change
        else:
            self.total += change
        update[...] = center

    def merge_rows(self, center: Array, rows: Array, update: Array, push: PushInfo) -> Array:
        """Add the change to the round; its last push steps by all rows that the round has changed.

        See `Combiner.merge_rows`.
        """
        if self.rows is None and self.count:
            return merge_whole(self, center, rows, update, push)
        if self.rows is None:
            self.total[...] = 0
            self.rows = NO_ROWS
        change, total = self._weighted(update, push), self.total.reshape(center.shape)
        total[rows] += change
        self.rows, changed = np.union1d(self.rows, rows), NO_ROWS
        if self.count >= self.due(push):
            mean = total[self.rows]
            if self.count > 1:
                mean /= mean.dtype.type(self.divisor())
            total[self.rows] = 0
            with on_rows(self, self.moments, center, self.rows) as (part, few):
                part.step(few, mean)
            changed, self.rows, self.count = self.rows, NO_ROWS, 0
        update[...] = center[rows]
        return changed


class FedAvg(AveragingCombiner):
    """Move the center by the mean of K changes, each weighted by its samples.

    Parameters
    ----------
    k : int, optional
        Pushes of a round; by default the active workers.

    Raises
    ------
    ConfigError
        `k` is below 1.
    """

    name = "fedavg"
    by_row = True
    rule = "every K pushes: c += Σ n_k Δ_k / Σ n_k, where n_k: samples of a push"
    source = "McMahan et al. 2017, arXiv:1602.05629; Stich 2018, arXiv:1805.09767"
    when = (
        "sync='bsp': then every round begins at one center; with H = 1 and plain SGD it is a large "
        "batch."
    )
    state = "the round's sum and weights"

    def reset(self, like: Array) -> None:
        """Set the empty state; see `StatefulCombiner.reset`."""
        super().reset(like)
        self.unit = 1
        self.weights = 0.0

    def weight(self, push: PushInfo) -> float:
        """Return its samples, as a multiple of those of the round's first push."""
        if not self.count:
            # So that equal pushes count exactly 1: nothing is rounded.
            self.unit, self.weights = push.samples, 0.0
        weight = push.samples / self.unit
        self.weights += weight
        return weight

    def divisor(self) -> float:
        """Return the sum of the weights."""
        return self.weights

    def step(self, center: Array, change: Array) -> None:
        """Do c += Δ̄."""
        move(center, change)


class OuterMomentum(AveragingCombiner):
    """A server optimizer with momentum, heavy-ball or Nesterov's.

    Parameters
    ----------
    k : int, optional
        Pushes of a round; by default the active workers.
    lr : float
        The server's learning rate, above 0.
    momentum : float
        In [0, 1).
    nesterov : bool
        Whether the step looks ahead, as Nesterov's does.

    Raises
    ------
    ConfigError
        `k` is below 1, `lr` not above 0, or `momentum` not in [0, 1).
    """

    name = "outermomentum"
    by_row = True
    moments = ("m",)
    rule = "every K pushes: m = μ m + Δ̄; c += η m, or η (Δ̄ + μ m) if nesterov"
    source = "Hsu, Qi, Brown 2019, arXiv:1909.06335"
    when = "A rule with momentum that no preset has."
    state = "the round's sum, m"

    def __init__(
        self, k: int | None = None, lr: float = 1.0, momentum: float = 0.9, nesterov: bool = False
    ) -> None:
        super().__init__(k)
        self.lr = positive(f"{type(self).__name__}(lr)", lr)
        self.momentum = below(f"{type(self).__name__}(momentum)", momentum, 1)
        self.nesterov = nesterov

    def reset(self, like: Array) -> None:
        """Set the empty state; see `StatefulCombiner.reset`."""
        super().reset(like)
        self.m = np.zeros_like(self.total)

    def of_statistics(self) -> Combiner:
        """Return the mean of as many pushes; see `Combiner.of_statistics`."""
        return FedAvg(self.k)

    def step(self, center: Array, change: Array) -> None:
        """Do m = μ m + Δ̄, then c += η m, or c += η (Δ̄ + μ m) if it is Nesterov's."""
        if not self.momentum:
            change *= self.lr
            move(center, change)
            return
        self.m *= self.momentum
        self.m += change
        if self.nesterov:
            change += self.momentum * self.m
            change *= self.lr
        else:
            np.multiply(self.m, self.lr, out=change)
        move(center, change)


class FedBuff(OuterMomentum):
    """Average K changes, the staler the less.

    Staleness is counted in steps of the server, one for K pushes, as the authors' own code does.
    Momentum is off by default: asynchrony adds a momentum of 1 - 1/n, and more momentum makes
    training diverge.

    Parameters
    ----------
    k : int, optional
        Pushes of a round; by default half the active workers, at least 1.
    lr, momentum : float
    nesterov : bool
        See `OuterMomentum`.

    Raises
    ------
    ConfigError
        See `OuterMomentum`.
    """

    name = "fedbuff"
    rule = "every K pushes: OuterMomentum's step by Δ̄ = Σ (1 + τ)^-½ Δ / K; τ: steps since the pull"
    source = "Nguyen et al. 2021, arXiv:2106.06639; FLSim"
    when = "Many workers, or pushes that are noisy or encrypted: the center moves less often."
    state = "the round's sum, m, when the last steps were"

    def __init__(
        self, k: int | None = None, lr: float = 1.0, momentum: float = 0.0, nesterov: bool = False
    ) -> None:
        super().__init__(k, lr, momentum, nesterov)

    def reset(self, like: Array) -> None:
        """Set the empty state; see `StatefulCombiner.reset`."""
        super().reset(like)
        self.steps: deque[int] = deque(maxlen=REMEMBERED)

    def of_statistics(self) -> Combiner:
        """Return the same without momentum; see `Combiner.of_statistics`."""
        return FedBuff(self.k)

    def weight(self, push: PushInfo) -> float:
        """Return (1 + τ)^-½."""
        missed = sum(1 for _ in takewhile(lambda at: at > push.base, reversed(self.steps)))
        return float((1 + missed) ** -0.5)

    def due(self, push: PushInfo) -> int:
        """Return K, by default n/2."""
        return self.k or max(1, push.workers // 2)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Add the worker's change to the round; see `Combiner.merge`."""
        super().merge(center, update, push)
        if not self.count:
            self.steps.append(push.pushes + 1)

    def merge_rows(self, center: Array, rows: Array, update: Array, push: PushInfo) -> Array:
        """Add the change to the round; see `AveragingCombiner.merge_rows`."""
        changed = super().merge_rows(center, rows, update, push)
        if not self.count:
            self.steps.append(push.pushes + 1)
        return changed


class DelayedNesterov(StatefulCombiner):
    """Step at every push, but update the Nesterov momentum at every N-th only.

    Parameters
    ----------
    lr : float
        The server's learning rate, above 0.
    beta : float
        Momentum in [0, 1).
    n : int, optional
        Pushes between two updates of the momentum; by default the active workers.

    Raises
    ------
    ConfigError
        `lr` is not above 0, `beta` not in [0, 1), or `n` below 1.
    """

    name = "delayednesterov"
    striped = by_row = True
    rule = "c += η Δ / N; every N-th push also: m = β m + Δ̄; c += η β m"
    source = "Liu et al. 2024, arXiv:2401.09135"
    when = "DiLoCo's setting with workers of unequal speed: no push waits for a round."
    state = "the sum of up to N changes, m"

    def __init__(self, lr: float = 0.7, beta: float = 0.9, n: int | None = None) -> None:
        self.lr = positive("DelayedNesterov(lr)", lr)
        self.beta = below("DelayedNesterov(beta)", beta, 1)
        self.n = None if n is None else at_least_one("DelayedNesterov(n)", n)

    def of_statistics(self) -> Combiner:
        """Return the same without momentum; see `Combiner.of_statistics`."""
        return DelayedNesterov(lr=1.0, beta=0.0, n=self.n)

    def reset(self, like: Array) -> None:
        """Set the empty state; see `StatefulCombiner.reset`."""
        self.count = 0
        self.total = np.zeros(like.shape, wide_dtype(like.dtype))
        self.m = np.zeros_like(self.total)
        # See `AveragingCombiner.reset`.
        self.rows: Array | None = None

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Step by the worker's change; see `Combiner.merge`."""
        self.rows = None
        due = self.n or push.workers
        change = widen_delta(update)
        self.total += change
        self.count += 1
        change *= self.lr / due
        if self.count >= due:
            self.total /= self.count
            self.m *= self.beta
            self.m += self.total
            self.total[...] = 0
            self.count = 0
            change += self.lr * self.beta * self.m
        move(center, change)
        update[...] = center

    def merge_rows(self, center: Array, rows: Array, update: Array, push: PushInfo) -> Array:
        """Step by the change; every N-th push moves all rows that have changed since the last.

        See `Combiner.merge_rows`.
        """
        if self.rows is None and self.count:
            return merge_whole(self, center, rows, update, push)
        found = np.union1d(NO_ROWS if self.rows is None else self.rows, rows)
        last = self.count + 1 >= (self.n or push.workers)
        moved = found if last else rows
        changes = np.zeros((len(moved), center.shape[1]), update.dtype)
        places = np.searchsorted(moved, rows)
        changes[places] = update
        with on_rows(self, ("total", "m"), center, moved) as (part, few):
            part.merge(few, changes, push)
        self.count, self.rows = part.count, NO_ROWS if last else found
        update[...] = changes[places]
        return moved
