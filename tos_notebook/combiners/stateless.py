"""The built-in rules: Downpour, DynSGD, ADAG, EASGD and FedAsync.

Notation: c center, w the worker's parameters, b what it adopted at its last exchange,
Δ = w - b, n active workers, H steps per milestone, τ staleness.
"""

from __future__ import annotations

from abc import abstractmethod

from ..common.arrays import Array
from ..common.checks import at_least_zero, fraction
from .arithmetic import add_delta, attract, blend
from .base import Combiner, Pushes, PushInfo


class _DividedDelta(Combiner):
    """c += Δ / divisor; the worker adopts c."""

    striped = by_row = True

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Add the worker's change; see `Combiner.merge`."""
        add_delta(center, update, self.divisor(push))

    @abstractmethod
    def divisor(self, push: PushInfo) -> float:
        """Return by how much a change shrinks, at least 1.

        Parameters
        ----------
        push : PushInfo
            The push that it came with.
        """


class Downpour(_DividedDelta):
    """Add what the worker changed since its pull.

    With one worker this is local training up to rounding: ``c + (w - b)`` equals w to the
    bit where ``w - b`` is exact, for instance for w/2 <= b <= 2w. Otherwise it differs by about one
    rounding per milestone. Center and worker always agree to the bit, because the
    worker adopts the center, so the differences do not add up between the two.
    """

    name = "downpour"
    rule = "c += Δ"
    source = "Dean et al. 2012, Large Scale Distributed Deep Networks"
    when = "Few workers and short milestones; unstable when many workers are stale."

    def divisor(self, push: PushInfo) -> float:
        """Return 1."""
        return 1


class DynSGD(_DividedDelta):
    """Add the worker's change, the less the staler it is.

    Parameters
    ----------
    exponent : float
        0 is Downpour; 1 divides by staleness + 1.

    Raises
    ------
    ConfigError
        `exponent` is below 0.
    """

    name = "dynsgd"
    rule = "c += Δ / (τ + 1)^exponent"
    source = "Jiang et al. 2017, Heterogeneity-aware Distributed Parameter Servers (SIGMOD)"
    when = "The default for asynchronous training: stays stable with many workers."

    def __init__(self, exponent: float = 1.0) -> None:
        self.exponent = at_least_zero("DynSGD(exponent)", exponent)

    def divisor(self, push: PushInfo) -> float:
        """Return (τ + 1)^exponent."""
        return float((push.staleness + 1) ** self.exponent)


class ADAG(_DividedDelta):
    """Add the worker's change divided by the steps it took: the mean step."""

    name = "adag"
    rule = "c += Δ / H"
    source = "Hermans et al. 2017, arXiv:1710.02368"
    when = "Long milestones; slower but steadier than Downpour."

    def of_statistics(self) -> Combiner:
        """Return DynSGD: a moving average has counted the steps; see `Combiner.of_statistics`."""
        return DynSGD()

    def divisor(self, push: PushInfo) -> float:
        """Return the steps of this push, fewer than `sync_interval` at a partition's end."""
        return push.steps


class EASGD(Combiner):
    """Pull center and worker towards each other; the worker keeps its own parameters.

    Parameters
    ----------
    alpha : float, optional
        Share of the distance that each moves, in (0, 1]. By default 0.9 / n.

    Raises
    ------
    ConfigError
        `alpha` is not in (0, 1].
    """

    name = "easgd"
    pushes: Pushes = "weights"
    striped = by_row = True
    keeps_own = True
    rule = "e = α (w - c); c += e; the worker adopts w - e"
    source = "Zhang, Choromanska, LeCun 2015, arXiv:1412.6651"
    when = "Workers should explore: their parameters may stay apart, loosely bound to c."

    def __init__(self, alpha: float | None = None) -> None:
        self.alpha = None if alpha is None else fraction("EASGD(alpha)", alpha)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Move both by the elastic force; see `Combiner.merge`."""
        attract(center, update, 0.9 / push.workers if self.alpha is None else self.alpha)


class FedAsync(Combiner):
    """Move the center towards the worker's parameters, the less the staler they are.

    Parameters
    ----------
    alpha : float
        Share of a fresh push, in (0, 1].
    a : float
        Exponent of the staleness discount; 0 for none.

    Raises
    ------
    ConfigError
        `alpha` is not in (0, 1], or `a` is below 0.
    """

    name = "fedasync"
    pushes: Pushes = "weights"
    striped = by_row = True
    rule = "α_τ = α (1 + τ)^-a; c = (1 - α_τ) c + α_τ w"
    source = "Xie, Koyejo, Gupta 2019, arXiv:1903.03934"
    when = "Partitions that differ much: each push can move the center by a bounded share."

    def __init__(self, alpha: float = 0.6, a: float = 0.5) -> None:
        self.alpha = fraction("FedAsync(alpha)", alpha)
        self.a = at_least_zero("FedAsync(a)", a)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Blend the worker's parameters in; see `Combiner.merge`."""
        blend(center, update, self.alpha * (1 + push.staleness) ** -self.a)
