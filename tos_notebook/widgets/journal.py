"""The latest entries of something that continues, numbered, so that each reader gets the news."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Journal(Generic[T]):
    """Entries in the order they came, the oldest forgotten.

    Parameters
    ----------
    limit : int
        Entries that are kept.

    Attributes
    ----------
    serial : int
        The number of the latest change, from 1.
    """

    def __init__(self, limit: int) -> None:
        self.serial = 0
        self._entries: deque[tuple[int, T]] = deque(maxlen=limit)

    def add(self, entry: T) -> None:
        """Append an entry."""
        self.serial += 1
        self._entries.append((self.serial, entry))

    def replace(self, old: T, new: T) -> None:
        """Put an entry in another's place; that is news."""
        self.serial += 1
        changed = ((self.serial, new) if e is old else (n, e) for n, e in self._entries)
        self._entries = deque(changed, self._entries.maxlen)

    def since(self, serial: int = 0) -> list[T]:
        """Return what was added or replaced after a number."""
        return [entry for number, entry in self._entries if number > serial]

    def added_since(self, serial: int, most: int) -> list[T]:
        """Return as `since` does where nothing is ever replaced: at the cost of the news only."""
        count = min(self.serial - serial, len(self._entries), most)
        latest = [entry for _, entry in islice(reversed(self._entries), count)]
        return latest[::-1]
