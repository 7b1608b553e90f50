"""What a node's function reads rows with."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from ..common.checks import at_least_one
from ..errors import ConfigError, DataError
from .hub import Hub
from .peers import Peers

PAUSE = 0.05
"""Seconds between two looks at rows and at other nodes, while neither has come."""

GRACE = 1.0
"""Seconds without a row after which a node makes steps without rows, if another one has some."""


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

    Attributes
    ----------
    peers : Peers or None
        The other nodes, for `synchronized_batches`; `NodeContext.get_data_feed` knows them.

    Raises
    ------
    ConfigError
        There is no such queue, or the mapping is none.
    """

    peers: Peers | None = None

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
        if not isinstance(input_mapping, Mapping | None):
            raise ConfigError(
                "input_mapping: expected names of columns with names of tensors, such as "
                f"{{'pixels': 'x'}}; got {input_mapping!r}."
            )
        columns = sorted((input_mapping or {}).items())
        self.input_tensors = [tensor for _, tensor in columns] if input_mapping else None
        self._queue = mgr.queue(qname_in)
        self._steps = itertools.count(1)
        self._last_row = monotonic()
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
        DataError
            A row has fewer fields than `input_mapping` has columns.
        """
        at_least_one("batch_size", batch_size)
        return self._shaped(self._take(batch_size))

    def _take(self, most: int, seconds: float | None = None) -> list[Any]:
        with_results = not self.train_mode
        rows, self.done_feeding = self._queue.take(most, with_results, with_results, seconds)
        return rows

    def _shaped(self, rows: list[Any]) -> Any:
        if self.input_tensors is None:
            return rows
        if not rows:
            return {tensor: [] for tensor in self.input_tensors}
        columns: list[Sequence[Any]] = []
        with suppress(TypeError):
            columns += zip(*rows, strict=False)
        if len(columns) < len(self.input_tensors):
            raise DataError(
                f"input_mapping: expected rows of at least {len(self.input_tensors)} fields, one "
                f"for each of its columns in the order of their names; got a row {rows[0]!r:.80}."
            )
        return {
            tensor: list(column)
            for tensor, column in zip(self.input_tensors, columns, strict=False)
        }

    def synchronized_batches(self, batch_size: int, timeout: float = 600.0) -> Iterator[Any]:
        """Yield batches until the feeds of all nodes that train are over: as many on each of them.

        For steps that all nodes make together, as with MultiWorkerMirroredStrategy. A node that has
        no rows, while another one has some, gets an empty batch. So every row is in one batch, and
        none waits for a node that has left. All nodes have to read this, and the batches' rows are
        their weights in the step: see the guide on TensorFlow clusters.

        Parameters
        ----------
        batch_size : int
            Rows at most.
        timeout : float
            Seconds without a word from another node, once this one's feed is over.

        Yields
        ------
        list, or dict of str to list
            As `next_batch` returns them.

        Raises
        ------
        ConfigError
            The number is below 1, or the feed does not know the other nodes.
        WaitTimeout
            Another node does not read its batches.
        TransportError
            The driver does not answer.
        """
        at_least_one("batch_size", batch_size)
        peers = self.peers
        if peers is None:
            raise ConfigError(
                "Expected a feed that knows the other nodes. Get it from ctx.get_data_feed()."
            )
        for step in self._steps:
            rows = self._gather(peers, step, batch_size)
            if rows:
                peers.announce(self.qname_in, step)
            elif self.done_feeding and not peers.go_on(self.qname_in, step, timeout):
                return
            yield self._shaped(rows)

    def _gather(self, peers: Peers, step: int, batch_size: int) -> list[Any]:
        """Return a whole batch, or what there is once other nodes wait, or the feed is over."""
        found: list[Any] = []
        while len(found) < batch_size and not self.done_feeding:
            late = monotonic() - self._last_row > GRACE
            more = self._take(batch_size - len(found), 0.0 if late else PAUSE)
            found += more
            if more:
                self._last_row = monotonic()
            elif late and peers.are_ready(self.qname_in, step, PAUSE):
                break
        return found

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
        """Stop reading: waiting rows are dropped, and Spark's tasks end at once."""
        self.mgr.terminate()
