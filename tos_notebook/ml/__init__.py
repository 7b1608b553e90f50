"""Training and prediction as stages of Spark ML pipelines."""

from __future__ import annotations

from .estimator import TensorEstimator
from .model import TensorModel, TrainingSummary

__all__ = ["TensorEstimator", "TensorModel", "TrainingSummary"]
