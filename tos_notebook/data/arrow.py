"""From Spark's Arrow batches to blocks, on the executors; bad rows are named or left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..blocks.block import Columns, in_content_order
from ..blocks.skips import ADVICE, Advice, SkipCounter, Skipped, count
from ..errors import DataError
from .arrow_rows import ArrowColumn, instead, problems_of, rows_of

BATCH_BYTES = 1 << 26
"""Of a batch at most, unless one row has more: Spark's own measure where it has one."""

Bad = dict[int, tuple[str, str]]
"""By row: the column that is bad, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ArrowDecoder:
    """Turns the Arrow batches of a partition into blocks.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the batches.
    columns : tuple of ArrowColumn
    skips : SkipCounter or None
        Where to count bad rows, which are left out; None to raise at the first.
    ordered : bool
        Whether the rows come in the same order whenever Spark makes the partition. Otherwise they
        are sorted by their content, so that a retried task feeds the same batches.
    advice : Advice
    """

    schema: Any
    columns: tuple[ArrowColumn, ...]
    skips: SkipCounter | None
    ordered: bool
    advice: Advice = ADVICE

    @property
    def images_at_once(self) -> int | None:
        """How many rows to decode at once, by the memory of their images; None without any."""
        nbytes = sum(column.nbytes for column in self.columns if column.image)
        return max(1, BATCH_BYTES // nbytes) if nbytes else None

    def __call__(self, partition: int, batches: Iterable[Any]) -> Iterator[Columns]:
        """Yield the partition's blocks.

        Raises
        ------
        DataError
            A row is bad and none may be left out.
        """
        blocks = self._blocks(partition, batches)
        return blocks if self.ordered else in_content_order(blocks)

    def _blocks(self, partition: int, batches: Iterable[Any]) -> Iterator[Columns]:
        skipped: dict[str, Skipped] = {}
        first = 0
        for message in batches:
            batch = message
            if not isinstance(message, pa.RecordBatch):
                batch = pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)
            block, _ = self.decode(batch, partition, first, skipped)
            if self.skips is not None:
                self.skips.check(skipped)
            if len(block[0]):
                yield block
            first += batch.num_rows
        if self.skips is not None and skipped:
            self.skips.add(skipped)

    def decode(
        self, batch: Any, partition: int, first: int, skipped: dict[str, Skipped]
    ) -> tuple[Columns, npt.NDArray[np.bool_] | None]:
        """Return the good rows of a batch.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
        partition, first : int
            Where it is, and its first row.
        skipped : dict
            Where the bad rows are counted, by column.

        Returns
        -------
        block : tuple of ndarray
        good : ndarray, shape (rows,), bool, or None
            Which rows they are; None for all.

        Raises
        ------
        DataError
            A row is bad and none may be left out.
        """
        block = self._block(batch)
        if block is not None:
            return block, None
        bad = self._bad(batch)
        self._count(skipped, bad, partition, first)
        good = np.ones(batch.num_rows, bool)
        good[list(bad)] = False
        block = self._block(batch.filter(pa.array(good)))
        assert block is not None, "what is left of a batch without its bad rows is good"
        return block, good

    def _block(self, batch: Any) -> Columns | None:
        """Return a batch as a block; None if any of its rows is bad."""
        block = []
        for array, column in zip(batch.columns, self.columns, strict=True):
            rows = rows_of(array, column)
            if rows is None:
                return None
            block.append(rows)
        return tuple(block)

    def _bad(self, batch: Any) -> Bad:
        found: Bad = {}
        for array, column in zip(batch.columns, self.columns, strict=True):
            for row, reason in problems_of(array, column).items():
                found.setdefault(row, (column.spec.name, reason))
        return found

    def _count(self, skipped: dict[str, Skipped], bad: Bad, partition: int, first: int) -> None:
        for row in sorted(bad):
            column, reason = bad[row]
            if self.skips is None:
                expected = next(c for c in self.columns if c.spec.name == column)
                raise DataError(
                    f"Column {column!r}, partition {partition}, row {first + row}: expected "
                    f"{expected}, got {reason}. {self._remedy(expected, reason)}"
                )
            count(skipped, partition, column, first + row, reason)

    def _remedy(self, column: ArrowColumn, reason: str) -> str:
        if column.varies and reason.endswith(instead(column.lengths[-1])):
            fill = self.advice.fill.format(column.spec.name)
            return (
                f"Fill rows up to one length, such as that of the longest: {fill}. Or give a "
                'length, and longer="cut".'
            )
        classes = ", give the model an output for each class" if "classes" in reason else ""
        return f"Clean the data{classes}, or leave such rows out: {self.advice.skip}."
