"""DataFrames as training data: columns, their types, Arrow batches; nothing trains here."""

from __future__ import annotations

from .batches import is_persisted
from .describe import columns
from .frame import FrameColumns

__all__ = ["FrameColumns", "columns", "is_persisted"]
