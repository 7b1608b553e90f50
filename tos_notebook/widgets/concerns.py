"""What a person should know of how a run learns: that it diverges, or that it overfits."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..telemetry.best import Best
from .news import Concern
from .numbers import short

DIVERGED = 10.0
"""How many times its lowest loss a diverging run's loss is."""

WORSE, EVALUATIONS = 1.05, 3
"""How many times its best the validation loss of an overfitting run is, and for how many
evaluations it has not been better."""


def concern(
    loss: float,
    lowest: float,
    then: float,
    best: Mapping[str, Best],
    validation: Mapping[str, float | None],
) -> Concern | None:
    """Return what is to be said; None if all is well, or nothing is known.

    Parameters
    ----------
    loss : float
        The training loss of late; NaN before any.
    lowest : float
        The lowest that it was so far; infinity before any.
    then : float
        What it was at the best evaluation of the loss; NaN if that is not known.
    best : mapping of Best
        By metric, of the evaluations so far.
    validation : mapping
        The latest evaluation.
    """
    if math.isfinite(lowest) and not loss <= DIVERGED * abs(lowest):
        factor = short(loss / lowest, 2) if lowest > 0 else None
        return {"kind": "diverging", "epoch": None, "factor": factor}
    known, latest = best.get("loss"), validation.get("loss")
    if known is None or latest is None or known.later < EVALUATIONS:
        return None
    # Where both losses have grown, as after a larger learning rate, the model fits neither.
    if latest <= WORSE * abs(known.value) or loss > then:
        return None
    return {"kind": "overfitting", "epoch": known.epoch, "factor": None}
