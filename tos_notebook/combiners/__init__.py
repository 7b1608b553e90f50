"""Combiners: the rules by which the server merges asynchronous pushes."""

from __future__ import annotations

from .base import Combiner, Pushes, PushInfo, TensorCombiner
from .originals import DeltaWeightCombiner, MeanWeightCombiner, UpdateMeanWeightCombiner
from .registry import COMBINERS, as_combiner, describe, get
from .rules import ADAG, EASGD, Downpour, DynSGD, FedAsync

__all__ = [
    "ADAG",
    "COMBINERS",
    "EASGD",
    "Combiner",
    "DeltaWeightCombiner",
    "Downpour",
    "DynSGD",
    "FedAsync",
    "MeanWeightCombiner",
    "PushInfo",
    "Pushes",
    "TensorCombiner",
    "UpdateMeanWeightCombiner",
    "as_combiner",
    "describe",
    "get",
]
