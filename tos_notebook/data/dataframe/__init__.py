"""DataFrames as training data: columns, their types, Arrow batches; nothing trains here."""

from __future__ import annotations

from .batches import is_persisted
from .frame import FrameColumns, columns

__all__ = ["FrameColumns", "columns", "is_persisted"]
