"""What a node's function reads rows with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..common.checks import at_least_one
from .hub import Hub


class DataFeed:
    """Reads the rows that Spark's tasks feed a node.

    Parameters
    ----------
    mgr : Hub
        ``ctx.mgr``.
    train_mode : bool
        Whether nothing is given back. Otherwise a batch ends with its partition.
    qname_in, qname_out : str
        Queues to read rows from, and to give results back by.
    input_mapping : mapping of str to str, optional
        From columns to tensors: `next_batch` then returns a list for each tensor, in the order of
        the columns' names.
    """

    def __init__(
        self,
        mgr: Hub,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Mapping[str, str] | None = None,
    ) -> None:
        self.mgr = mgr
        self.train_mode = train_mode
        self.qname_in, self.qname_out = qname_in, qname_out
        self.done_feeding = False
        columns = sorted((input_mapping or {}).items())
        self.input_tensors = [tensor for _, tensor in columns] if input_mapping else None
        self._queue = mgr.queue(qname_in)
        if not train_mode:
            mgr.queue(qname_out)

    def next_batch(self, batch_size: int) -> Any:
        """Wait for rows, and return them.

        Parameters
        ----------
        batch_size : int
            Rows at most; fewer at the end of the feed, or of a partition whose results are wanted.

        Returns
        -------
        list, or dict of str to list
            The rows; with `input_mapping` the values of each tensor.

        Raises
        ------
        ConfigError
            The number is below 1.
        """
        at_least_one("batch_size", batch_size)
        rows, self.done_feeding = self._queue.take(
            batch_size, whole=not self.train_mode, for_results=not self.train_mode
        )
        if self.input_tensors is None:
            return rows
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=False) if rows else ()
        found = dict.fromkeys(self.input_tensors) | {
            tensor: list(column)
            for tensor, column in zip(self.input_tensors, columns, strict=False)
        }
        return {tensor: [] if column is None else column for tensor, column in found.items()}

    def should_stop(self) -> bool:
        """Return whether the end of the feed was met."""
        return self.done_feeding

    def batch_results(self, results: Iterable[Any]) -> None:
        """Give back a result for each row of the last batches, in their order.

        Parameters
        ----------
        results : iterable
            Of numbers, strings, bytes, arrays, or lists of these.

        Raises
        ------
        ConfigError
            They are more than the rows.
        """
        self.mgr.give_back(self.qname_in, results)

    def terminate(self) -> None:
        """Read no more: rows that wait are dropped, and Spark's tasks end at once."""
        self.mgr.terminate()
