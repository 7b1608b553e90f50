"""Checks for your own combiner or strategy, without Spark and TensorFlow."""

from __future__ import annotations

from .combiners import CHECKS, check_combiner
from .report import CheckReport, Finding
from .strategies import check_strategy

__all__ = ["CHECKS", "CheckReport", "Finding", "check_combiner", "check_strategy"]
