"""DataFrames as training data: their columns, the types of these, and Arrow batches."""

from __future__ import annotations

from .batches import is_persisted
from .frame import FrameColumns, columns

__all__ = ["FrameColumns", "columns", "is_persisted"]
