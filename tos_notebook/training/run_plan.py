"""What a run was asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..coordination.snapshots import Asked
from .limits import Limits
from .options import RunOptions


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run was asked to do.

    Parameters
    ----------
    options : RunOptions
        Checked.
    slots : int
        Tasks that Spark runs at once.
    pool : str or None
        Spark's scheduling pool of the jobs; None for the default one.
    asked : tuple of int and Partitioner, optional
        A repartition that is still to be done, of a run that is resumed.
    limits : Limits
    """

    options: RunOptions
    slots: int
    pool: str | None = None
    asked: Asked | None = None
    limits: Limits = field(default_factory=Limits)
