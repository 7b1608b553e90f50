"""What a worker process has loaded from archives, for Spark's later tasks in the same process."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Value = TypeVar("Value")

BOUND = 2
"""Values that are kept."""


class Loaded(Generic[Value]):
    """Values by the names of their archives; keeps those that were used last."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, Value] = OrderedDict()

    def get(self, name: str) -> Value | None:
        """Return what was loaded from an archive; None if it is not kept."""
        return self._values.get(name)

    def keep(self, name: str, value: Value) -> Value:
        """Keep a value that is used now, and return it."""
        self._values[name] = value
        self._values.move_to_end(name)
        while len(self._values) > BOUND:
            self._values.popitem(last=False)
        return value
