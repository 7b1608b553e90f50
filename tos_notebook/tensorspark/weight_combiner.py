"""The original's combiners, under the original's names."""

from __future__ import annotations

from ..combiners import DeltaWeightCombiner, MeanWeightCombiner, UpdateMeanWeightCombiner
from ..combiners import TensorCombiner as WeightCombiner

__all__ = [
    "DeltaWeightCombiner",
    "MeanWeightCombiner",
    "UpdateMeanWeightCombiner",
    "WeightCombiner",
]
