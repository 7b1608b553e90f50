"""What a rule makes of the vectors of all ranks, which look at each of them: a median, say."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter

import numpy as np

from ..common.arrays import Array
from ..errors import LocalProtocolError
from .mesh import Mesh
from .plans import Received, Step
from .reducer import Reducer
from .schedules import Schedule
from .weighing import LEAST, Held

Rule = Callable[[Array], Array]
"""Takes vectors as rows, shape (k, size), which it may overwrite; returns one, shape (size,)."""


class GatheringReducer(Reducer):
    """Replaces vectors by what a rule makes of all of them, the same bits on each rank.

    Each rank has a part, for which it collects the numbers of all others. The rule sees those of
    ranks with rows, in the order of the ranks; each counts alike, whatever its weight.

    Parameters
    ----------
    mesh : Mesh
    schedule : Schedule
        Direct: by all others, what comes is a sum of several ranks.
    rule : callable
        Elementwise, so that parts of vectors can be looked at apart.

    Raises
    ------
    LocalProtocolError
        The schedule is another one.
    """

    def __init__(self, mesh: Mesh, schedule: Schedule, rule: Rule) -> None:
        super().__init__(mesh, schedule)
        if schedule.name != "direct":
            raise LocalProtocolError(f"Expected a direct schedule, got {schedule.name}.")
        self._rule = rule

    def _add(self, step: Step) -> None:
        """Collect what comes, and let the rule make one vector of all of them."""
        if not step.receives:
            return
        part = step.receives[0].parts[0]
        targets = [piece.target for piece in step.receives[0].pieces]
        mine = self._held[part].weight
        gathered = [self._gather(received) for received in step.receives]
        weights = [held.weight for held, _ in gathered]
        rows = [row for _, row in gathered]
        weights.insert(step.round.own, mine)
        rows.insert(step.round.own, np.concatenate(targets))
        began = perf_counter()
        voices = [row for row, weight in zip(rows, weights, strict=True) if weight >= LEAST]
        made = self._rule(np.stack(voices)) if voices else np.zeros_like(rows[0])
        start = 0
        for target in targets:
            target[...] = made[start : start + target.size]
            start += target.size
        self._reducing += perf_counter() - began
        # The same bits on all ranks, each of which has received them in another order.
        total = math.fsum(weights)
        self._held[part] = Held(total, total)

    def _gather(self, received: Received) -> tuple[Held, Array]:
        """Return what a rank sends for this one's part, and its weight."""
        came, numbers = self._begin(received), []
        for piece in received.pieces:
            if piece.payload:
                self._flow.fill(received.link, piece.payload)
            numbers.append(piece.came.copy())
        return came, np.concatenate(numbers)
