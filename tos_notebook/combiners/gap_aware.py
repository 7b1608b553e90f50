"""Rules that look at the gap between the center and what the worker trained from.

Notation: b what the worker adopted at its last exchange, so that c - b is the gap.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..common.arrays import Array
from ..common.checks import at_least_zero, positive
from ..errors import CombinerError
from ..persist.values import put_back
from .arithmetic import move, widen, widen_delta
from .base import Combiner, Part, PushInfo, StatefulCombiner
from .stateless import DynSGD


class Adopted:
    """One copy of what each worker adopted last, and one of the center at the beginning.

    A worker that did not adopt its base from a push is taken to have adopted the center at
    the beginning, if its base is not younger. Else it is taken to have adopted the present one,
    because its gap is not known.
    """

    def __init__(self) -> None:
        self._first: Array | None = None
        self._began = 0
        self._copies: dict[int, Array] = {}
        self._versions: dict[int, int] = {}

    def dump(self) -> Mapping[str, Any]:
        """Return the copies and their versions; see `Combiner.dump`."""
        return vars(self)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take them over; see `Combiner.restore`."""
        put_back(self, state, self.dump())

    def make_room(self, center: Array, push: PushInfo) -> None:
        """Allocate for one more push, the only thing here that can fail."""
        if self._first is None:
            self._first, self._began = center.copy(), push.pushes
        if push.worker not in self._copies:
            self._copies[push.worker] = np.empty_like(center)

    def base(self, center: Array, push: PushInfo) -> Array:
        """Return b for a push."""
        if self._versions.get(push.worker) == push.base:
            return self._copies[push.worker]
        return center if self._first is None or push.base > self._began else self._first

    def keep(self, center: Array, push: PushInfo) -> None:
        """Remember that the worker adopts the center as its push has left it."""
        self._copies[push.worker][...] = center
        self._versions[push.worker] = push.pushes + 1


class _GapCombiner(StatefulCombiner):
    """c += Δ, after `correct` has changed it by the gap."""

    striped = True
    state = "b of each worker, c at the beginning"

    @abstractmethod
    def correct(self, change: Array, gap: Array) -> None:
        """Change a worker's change by the gap.

        Parameters
        ----------
        change : ndarray
            Δ, changed in place; in the dtype to compute in.
        gap : ndarray, of the same shape and dtype
            c - b; it may be overwritten.
        """

    def reset(self, like: Array) -> None:
        """Set the empty state; see `StatefulCombiner.reset`."""
        self.adopted = Adopted()

    def of_statistics(self) -> Combiner:
        """Return DynSGD: their gap says nothing; see `Combiner.of_statistics`."""
        return DynSGD()

    def prepare(self, parts: Sequence[Part], push: PushInfo) -> None:
        """Make room for what the worker will adopt, while it can fail without harm."""
        for rule, center, _ in parts:
            if isinstance(rule, _GapCombiner):
                rule.adopted.make_room(center, push)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Add the corrected change; see `Combiner.merge`."""
        change = widen_delta(update)
        base = self.adopted.base(center, push)
        if base is not center:
            with np.errstate(over="ignore"):
                self.correct(change, np.asarray(widen(center) - widen(base)))
        move(center, change)
        update[...] = center
        self.adopted.keep(center, push)


class GapAware(_GapCombiner):
    """Shrink a change where the center has moved since the worker adopted it.

    The squared gap is Hermans'. Barkai, Hakimi and Schuster, from whom the name is, divide a
    gradient by 1 plus the gap itself, measured in average steps: their penalty is linear.

    Parameters
    ----------
    gamma : float
        The squared gap at which a change is halved, above 0.

    Raises
    ------
    ConfigError
        `gamma` is not above 0.
    """

    name = "gapaware"
    rule = "c += Δ / (1 + (c - b)² / γ), elementwise"
    source = (
        "Hermans 2017, On Scalable Deep Learning and Parallelizing Gradient Descent (thesis); the "
        "name: Barkai, Hakimi, Schuster 2020 (ICLR), arXiv:1909.10802, linear in the gap"
    )
    when = "Stale pushes, if only those parameters should be held back that moved meanwhile."

    def __init__(self, gamma: float = 1e-4) -> None:
        self.gamma = positive("GapAware(gamma)", gamma)

    def correct(self, change: Array, gap: Array) -> None:
        """Divide by 1 + (c - b)² / γ."""
        gap *= gap
        # A division takes several times as long.
        gap *= 1 / self.gamma
        gap += 1
        change /= gap


class DCASGD(_GapCombiner):
    """Experimental: correct a stale gradient by an estimate of how it changed meanwhile.

    The estimate holds for one gradient, so `sync_interval` must be 1, and the workers must
    train by plain SGD. At a large `lam` it diverges. Before a swap to it in mid-run, set
    `sync_interval` to 1 and wait until that is in force with every worker.

    Parameters
    ----------
    lam : float
        Strength of the correction, at least 0; 0 is Downpour.
    lr : float
        The workers' learning rate, above 0, by which a change becomes a gradient: g = -Δ / lr.

    Raises
    ------
    ConfigError
        `lam` is below 0, or `lr` is not above 0.
    """

    name = "dcasgd"
    one_step = True
    rule = "g = -Δ / η; c -= η (g + λ g² (c - b)), elementwise; one step per milestone"
    source = "Zheng et al. 2017, arXiv:1609.08326; MXNet"
    when = "Experimental: plain SGD with sync_interval=1."

    def __init__(self, lam: float = 0.04, lr: float = 1.0) -> None:
        self.lam = at_least_zero("DCASGD(lam)", lam)
        self.lr = positive("DCASGD(lr)", lr)

    def prepare(self, parts: Sequence[Part], push: PushInfo) -> None:
        """Refuse a push of several steps, and make room; see `Combiner.prepare`.

        Raises
        ------
        CombinerError
            The worker took more than one step since its pull.
        """
        if push.steps != 1:
            raise CombinerError(
                f"DCASGD: expected one step per milestone, got {push.steps} from worker "
                f"{push.worker}. Set sync_interval to 1, or choose another combiner, such as "
                "gapaware."
            )
        super().prepare(parts, push)

    def correct(self, change: Array, gap: Array) -> None:
        """Subtract λ Δ² (c - b) / η."""
        gap *= self.lam / self.lr
        gap *= change
        gap *= change
        change -= gap
