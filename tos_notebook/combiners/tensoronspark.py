"""TensorOnSpark's three combiners, natively and with their original ``compute``.

As combiners of a run they work in place on all parameters. ``compute`` serves programs
that call them by hand, one tensor at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.arrays import Array
from ..common.checks import at_least_one
from ..errors import ConfigError
from .arithmetic import blend
from .base import Combiner, Pushes, PushInfo
from .stateless import Downpour

SOURCE = "TensorOnSpark 2016"


class MeanWeightCombiner(Combiner):
    """Take the worker's parameters as one of `num` equal voices.

    Parameters
    ----------
    num : int, optional
        How many voices; by default the active workers at each push.

    Raises
    ------
    ConfigError
        `num` is below 1.
    """

    name = "mean"
    pushes: Pushes = "weights"
    striped = by_row = True
    rule = "c = ((num - 1) c + w) / num"
    source = SOURCE
    when = "As the original did it; FedAsync with α = 1/num and a = 0."

    def __init__(self, num: int | None = None) -> None:
        self.num = None if num is None else at_least_one("MeanWeightCombiner(num)", num)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Blend the worker's parameters in; see `Combiner.merge`."""
        blend(center, update, 1 / (self.num or push.workers))

    def compute(
        self, origin_weight: Array, new_weight: Array, worker_id: int = -1, name: str | None = None
    ) -> Any:
        """Return ``((num - 1) origin + new) / num``; see `TensorCombiner.compute`.

        Raises
        ------
        ConfigError
            `num` was not given. A call by hand does not say how many workers there are.
        """
        if self.num is None:
            raise ConfigError("MeanWeightCombiner.compute needs num: MeanWeightCombiner(num=4).")
        return ((self.num - 1) * origin_weight + new_weight) / self.num


class UpdateMeanWeightCombiner(Combiner):
    """Take the first push as it is and the mean of center and worker from then on."""

    name = "updatemean"
    pushes: Pushes = "weights"
    striped = by_row = True
    rule = "c = w at the first push, then (c + w) / 2"
    source = SOURCE
    when = "As the original did it; FedAsync with α = 1/2 and a = 0 after the first push."

    def __init__(self) -> None:
        self._seen: set[str | None] = set()

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Blend the worker's parameters in; see `Combiner.merge`."""
        blend(center, update, 0.5 if push.pushes else 1)

    def compute(
        self, origin_weight: Array, new_weight: Array, worker_id: int = -1, name: str | None = None
    ) -> Any:
        """Return `new_weight` at the first call for `name`, then the mean of the two.

        Each name has a first call of its own; see `TensorCombiner.compute`.
        """
        if name in self._seen:
            return (origin_weight + new_weight) / 2
        self._seen.add(name)
        return new_weight


class DeltaWeightCombiner(Downpour):
    """Add what the worker changed since its pull: Downpour under the original's name.

    The original added whole weights at the first push and counted the other workers'
    updates twice later on. This one does what its name says.
    """

    name = "delta"
    when = "As the original meant it; the same as Downpour."

    def __init__(self) -> None:
        self._first: dict[str | None, Array] = {}
        self._pulled: dict[tuple[int, str | None], Array] = {}

    def compute(
        self, origin_weight: Array, new_weight: Array, worker_id: int = -1, name: str | None = None
    ) -> Any:
        """Return origin plus what the worker changed since its pull; see `TensorCombiner.compute`.

        The base of the change is what this worker pulled last, that is, what its last call
        for `name` returned. Before its first call every worker is taken to have pulled the
        first origin ever seen for `name`, the initial value. Keeps one copy of each
        tensor for each worker.
        """
        first = self._first.setdefault(name, np.array(origin_weight))
        base = self._pulled.get((worker_id, name), first)
        updated = origin_weight + (new_weight - base)
        self._pulled[worker_id, name] = np.array(updated)
        return updated
