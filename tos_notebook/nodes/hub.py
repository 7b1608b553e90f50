"""The rows that a node is fed, and the results that it gives back, in queues."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import ConfigError

MOST_ROWS = 1 << 16
"""Rows that wait in a queue, beyond which feeders wait; a block may exceed it."""

MOST_BLOCKS = 4
"""Blocks that wait in a queue: enough to be busy with while the next ones come."""

RUNNING, TERMINATING, ENDED, FAILED = "running", "terminating", "ended", "failed"


class EndPartition:
    """Stands in a queue behind the last row of a partition whose results are wanted."""


class Source:
    """One partition that feeds a node.

    Parameters
    ----------
    wants_results : bool
        Whether it waits for a result for each row.

    Attributes
    ----------
    left : int
        Rows that were not taken yet.
    results : list
        What was given back for its rows, and not fetched yet.
    """

    def __init__(self, wants_results: bool = False) -> None:
        self.wants_results = wants_results
        self.left = 0
        self.results: list[Any] = []


class _Block:
    def __init__(self, rows: Sequence[Any], source: Source | None) -> None:
        self.rows, self.source, self.start = rows, source, 0

    def __len__(self) -> int:
        return len(self.rows) - self.start


class RowQueue:
    """A queue of rows that takes and gives many at once. It has what `queue.Queue` has, too."""

    def __init__(self, changed: threading.Condition, wanted: Callable[[], bool]) -> None:
        self._changed = changed
        self._wanted = wanted
        self._blocks: deque[_Block] = deque()
        self.rows_taken = 0
        self._ended = False
        # Whose rows were taken last, in order, with how many: what comes back is theirs.
        self.taken: deque[list[Any]] = deque()
        self.giver: int | None = None
        """The thread that has given results back last."""
        self._takers: set[int] = set()

    def put_rows(self, rows: Sequence[Any], source: Source, seconds: float) -> bool:
        """Append rows, once there is room; return whether they were.

        Parameters
        ----------
        rows : sequence
        source : Source
        seconds : float
            To wait for room, while rows are wanted.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._wanted() or self._has_room(), seconds)
            if not (self._wanted() and self._has_room()):
                return False
            self._blocks.append(_Block(rows, source))
            source.left += len(rows)
            self._changed.notify_all()
            return True

    def _has_room(self) -> bool:
        fed = [block for block in self._blocks if block.source is not None]
        return len(fed) < MOST_BLOCKS and sum(map(len, fed)) < MOST_ROWS

    def take(
        self, most: int, whole: bool, for_results: bool, seconds: float | None = None
    ) -> tuple[list[Any], bool]:
        """Wait for up to so many rows; once none are wanted, the feed has ended.

        Parameters
        ----------
        most : int
        whole : bool
            Whether to stop at the end of a partition.
        for_results : bool
            Whether a result is given back for each.
        seconds : float, optional
            To wait for the next row; as long as it takes by default.

        Returns
        -------
        rows : list
            Fewer at the end of the feed, or of a partition, or of the seconds.
        ended : bool
            Whether the end of the feed was met.
        """
        found: list[Any] = []
        with self._changed:
            while len(found) < most:
                self._await_rows(seconds)
                if not self._blocks:
                    return found, self._ended or not self._wanted()
                block = self._blocks[0]
                if block.source is None and block.rows[0] is None:
                    self._drop(1)
                    # A second call does not wait for rows: none will be fed.
                    self._ended = True
                    return found, True
                if block.source is None and isinstance(block.rows[0], EndPartition):
                    self._drop(1)
                    if whole and found:
                        break
                    continue
                found += self._rows(min(most - len(found), len(block)), for_results)
            return found, False

    def _await_rows(self, seconds: float | None) -> None:
        taker = threading.get_ident()
        self._takers.add(taker)
        try:
            self._changed.wait_for(
                lambda: self._blocks or self._ended or not self._wanted(), seconds
            )
        finally:
            self._takers.discard(taker)

    @property
    def starved(self) -> bool:
        """Whether the thread that gives results back waits for rows, and there are none."""
        with self._changed:
            return not self._blocks and self.giver in self._takers

    def _rows(self, count: int, for_results: bool) -> Sequence[Any]:
        block = self._blocks[0]
        rows = block.rows[block.start : block.start + count]
        if block.source is not None and (for_results or block.source.wants_results):
            self.taken.append([block.source, count])
        self._drop(count)
        return rows

    def _drop(self, count: int) -> None:
        block = self._blocks[0]
        block.start += count
        if block.source is not None:
            block.source.left -= count
            self.rows_taken += count
        if not len(block):
            self._blocks.popleft()
        self._changed.notify_all()

    def forget(self, source: Source) -> None:
        """Forget the rows of a source that were not taken."""
        with self._changed:
            kept = [block for block in self._blocks if block.source is not source]
            self._blocks.clear()
            self._blocks.extend(kept)
            source.left = 0
            self._changed.notify_all()

    def clear(self) -> None:
        """Forget all rows."""
        with self._changed:
            while self._blocks:
                self._drop(len(self._blocks[0]))

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Append one item; there is always room."""
        with self._changed:
            self._blocks.append(_Block([item], None))
            self._changed.notify_all()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Wait for one item, and take it.

        Raises
        ------
        queue.Empty
            None has come in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._blocks, timeout if block else 0):
                raise queue.Empty
            item = self._blocks[0].rows[self._blocks[0].start]
            self._drop(1)
            return item

    def task_done(self) -> None:
        """Tell that an item was dealt with; taking it has told so."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until all items are taken."""
        with self._changed:
            self._changed.wait_for(lambda: not self._blocks, timeout)

    def qsize(self) -> int:
        """Return how many items wait."""
        with self._changed:
            return sum(map(len, self._blocks))

    def empty(self) -> bool:
        """Return whether no item waits."""
        return not self._blocks


class Hub:
    """The queues of a node, and whether it still wants rows.

    Parameters
    ----------
    queues : iterable of str
        Their names.
    """

    def __init__(self, queues: Iterable[str] = ("input", "output", "error")) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._queues = {name: RowQueue(self._changed, lambda: self.open) for name in queues}
        self._values: dict[str, Any] = {"state": RUNNING}
        self.failure = ""
        """What has failed, as text, once it has."""

    @property
    def open(self) -> bool:
        """Whether rows are wanted."""
        return bool(self._values["state"] == RUNNING)

    def get(self, key: str) -> Any:
        """Return a value that was set; ``state`` is one."""
        return self._values[key]

    def set(self, key: str, value: Any) -> None:
        """Set a value. Setting ``state`` to something else than running releases all feeders."""
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get_queue(self, name: str) -> RowQueue | None:
        """Return a queue; None if there is none of this name."""
        return self._queues.get(name)

    def queue(self, name: str) -> RowQueue:
        """Return a queue.

        Raises
        ------
        ConfigError
            There is none of this name.
        """
        found = self._queues.get(name)
        if found is None:
            raise ConfigError(f"Expected a queue of {sorted(self._queues)}, got {name!r}.")
        return found

    @property
    def rows_taken(self) -> int:
        """How many rows of partitions were taken so far."""
        return sum(each.rows_taken for each in self._queues.values())

    def give_back(self, name: str, results: Iterable[Any]) -> None:
        """Give results back, in the order in which the rows of a queue were taken.

        Raises
        ------
        ConfigError
            They are more than the rows that were taken.
        """
        found, queue = list(results), self.queue(name)
        taken = queue.taken
        with self._changed:
            queue.giver = threading.get_ident()
            rows = sum(count for _, count in taken)
            if len(found) > rows:
                # None of them is given back: which row they belong to is not known.
                raise ConfigError(
                    "Expected one result for each row that next_batch() returned, got more: "
                    f"{len(found)} for {rows}."
                )
            for result in found:
                source, _ = taken[0]
                source.results.append(result)
                taken[0][1] -= 1
                if not taken[0][1]:
                    taken.popleft()
            self._changed.notify_all()

    def wait(self, source: Source, results: bool, seconds: float) -> list[Any]:
        """Wait until rows of a source were taken or results have come; return the results."""
        with self._changed:
            before = source.left
            self._changed.wait_for(
                lambda: (
                    not self.open
                    or bool(source.results)
                    or (not results and (not source.left or source.left < before))
                ),
                seconds,
            )
            found, source.results = source.results, []
            return found

    def terminate(self) -> None:
        """Want no more rows: forget those that wait, and release all feeders."""
        self.set("state", TERMINATING)
        for each in self._queues.values():
            each.clear()

    def close_feed(self) -> None:
        """Let `next_batch` end once all rows that have come are taken."""
        for name, each in self._queues.items():
            if name != "error":
                each.put(None)

    def end(self, failure: str = "") -> None:
        """Release all feeders, as the node's function has ended, or failed."""
        self.failure = failure
        self.set("state", FAILED if failure else ENDED)
