"""Rules that take one step of a server optimizer on the mean of K pushes.

The synchronous originals average the changes of one round of n workers. Read
asynchronously, a round is the next K pushes, whoever they come from. What a worker adopts is
the center as it is after its push; its change counts when the round is full. A round that is
not full when a run ends, or the combiner is swapped, is dropped; with K = n, which the last
workers to leave make small, nothing is left over at the end of a run.

Notation: Δ̄ the mean change, m momentum, v second moment, η `lr`, all beginning at 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from itertools import takewhile

import numpy as np

from ..common.arrays import Array
from ..common.checks import at_least_one, below, positive
from .arithmetic import move, wide_dtype, widen_delta
from .base import Combiner, PushInfo, StatefulCombiner

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

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Add the worker's change to the round; see `Combiner.merge`."""
        change = widen_delta(update)
        weight = self.weight(push)
        if weight != 1:
            change *= change.dtype.type(weight)
        self.count += 1
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
    Momentum is off by default: asynchrony has one of its own, 1 - 1/n, and with more on top of it
    training diverges.

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
    striped = True
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

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Step by the worker's change; see `Combiner.merge`."""
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
