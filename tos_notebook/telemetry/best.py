"""The best evaluation so far of each metric whose name says what is best."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..events import Validated
from ..steering.conditions import largest_is_best


@dataclass(frozen=True, slots=True)
class Best:
    """The best value of one metric.

    Parameters
    ----------
    value : float
    epoch : int
        In which it was reached, from 1.
    later : int
        Evaluations since then.
    """

    value: float
    epoch: int
    later: int = 0


def updated(best: dict[str, Best], event: Validated) -> dict[str, Best]:
    """Return the best values with one more evaluation; NaN and infinity are never the best."""
    found = {n: Best(b.value, b.epoch, b.later + 1) for n, b in best.items()}
    for name, value in event.values.items():
        largest = largest_is_best(name)
        if largest is None or not math.isfinite(value):
            continue
        before = best.get(name)
        if before is None or (value > before.value if largest else value < before.value):
            found[name] = Best(value, event.epoch + 1)
    return found
