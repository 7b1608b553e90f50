"""The rules by which the server merges asynchronous pushes; no locks, no sockets."""

from __future__ import annotations

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
