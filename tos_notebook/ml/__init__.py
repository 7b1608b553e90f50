"""Training and prediction as stages of Spark ML pipelines; sessions and runs do the work."""

from __future__ import annotations

from .estimator import TensorEstimator
from .model import TensorModel, TrainingSummary

__all__ = ["TensorEstimator", "TensorModel", "TrainingSummary"]
