"""The rules by which the server merges asynchronous pushes; no locks, no sockets.

Executors import the few rules that workers apply: names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.lazy import load_lazily

if TYPE_CHECKING:
    from .adaptive import FedAdam, FedYogi
    from .averaging import AveragingCombiner, DelayedNesterov, FedAvg, FedBuff, OuterMomentum
    from .base import Combiner, Part, Pushes, PushInfo, StatefulCombiner, TensorCombiner
    from .clip import Clip
    from .gap_aware import DCASGD, GapAware
    from .preset import Preset
    from .registry import BMUF, COMBINERS, DiLoCo, SlowMo, as_combiner, describe, get
    from .robust import Median, MultiKrum, RobustCombiner, TrimmedMean
    from .stateless import ADAG, EASGD, Downpour, DynSGD, FedAsync
    from .tensoronspark import DeltaWeightCombiner, MeanWeightCombiner, UpdateMeanWeightCombiner

_IN = {
    ".adaptive": "FedAdam FedYogi",
    ".averaging": "AveragingCombiner DelayedNesterov FedAvg FedBuff OuterMomentum",
    ".base": "Combiner Part Pushes PushInfo StatefulCombiner TensorCombiner",
    ".clip": "Clip",
    ".gap_aware": "DCASGD GapAware",
    ".preset": "Preset",
    ".registry": "BMUF COMBINERS DiLoCo SlowMo as_combiner describe get",
    ".robust": "Median MultiKrum RobustCombiner TrimmedMean",
    ".stateless": "ADAG EASGD Downpour DynSGD FedAsync",
    ".tensoronspark": "DeltaWeightCombiner MeanWeightCombiner UpdateMeanWeightCombiner",
}

__all__ = [
    "ADAG",
    "BMUF",
    "COMBINERS",
    "DCASGD",
    "EASGD",
    "AveragingCombiner",
    "Clip",
    "Combiner",
    "DelayedNesterov",
    "DeltaWeightCombiner",
    "DiLoCo",
    "Downpour",
    "DynSGD",
    "FedAdam",
    "FedAsync",
    "FedAvg",
    "FedBuff",
    "FedYogi",
    "GapAware",
    "MeanWeightCombiner",
    "Median",
    "MultiKrum",
    "OuterMomentum",
    "Part",
    "Preset",
    "PushInfo",
    "Pushes",
    "RobustCombiner",
    "SlowMo",
    "StatefulCombiner",
    "TensorCombiner",
    "TrimmedMean",
    "UpdateMeanWeightCombiner",
    "as_combiner",
    "describe",
    "get",
]

__getattr__ = load_lazily(
    __name__, {name: home for home, names in _IN.items() for name in names.split()}
)


def __dir__() -> list[str]:
    return sorted(__all__)
