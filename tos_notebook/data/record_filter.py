"""Records of files that cannot be trained on: named, or left out and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..blocks.block import Columns, ColumnSpec
from ..blocks.feeds import Feed, beyond, integers, narrowed, outside
from ..blocks.skips import SkipCounter, Skipped
from ..common.arrays import Array
from ..errors import DataError


class Label(NamedTuple):
    """What is known of a field.

    `classes`: of how many its labels are; None for what is no label, or unknown. `narrow`: the
    dtype of integers that the program makes of them, where not all of them fit; None otherwise.
    """

    name: str
    classes: int | None = None
    narrow: str | None = None


RECORD = "record"
"""In place of a column's name, where the whole record is bad."""


def labels_of(feeds: Sequence[Feed], columns: Sequence[ColumnSpec]) -> tuple[Label, ...]:
    """Return what a `RecordFilter` needs to know of each of the fields of a record."""
    known = [
        Label(feed.name, feed.classes, narrowed(column.dtype, feed.dtype))
        for feed, column in zip(feeds, columns, strict=False)
    ]
    return (*known, *(Label(f"field {n}") for n in range(len(known), len(columns))))


class RecordFilter:
    """Takes bad records out of a partition, inside a Spark task.

    Parameters
    ----------
    labels : sequence of Label
        One for each column.
    skips : SkipCounter or None
        Where to count them; None to raise at the first.
    partition : int
    """

    def __init__(self, labels: Sequence[Label], skips: SkipCounter | None, partition: int) -> None:
        self._labels = labels
        self._skips = skips
        self._partition = partition
        self._found: dict[str, Skipped] = {}

    def __call__(self, uri: str, numbers: npt.NDArray[np.int64], block: Columns) -> Columns:
        """Return the good records of a block.

        Parameters
        ----------
        uri : str
            Of the file.
        numbers : ndarray, shape (rows,), int64
            Which of the file's records they are, from 0.
        block : tuple of ndarray, shape (rows, ...)

        Raises
        ------
        DataError
            A record is bad, and none may be left out.
        """
        good = np.ones(len(numbers), bool)
        for label, column in zip(self._labels, block, strict=True):
            for row in np.flatnonzero(good & _wrong(column, label)):
                self.refuse(uri, int(numbers[row]), label.name, _reason(column[row], label))
                good[row] = False
        return block if good.all() else tuple(column[good] for column in block)

    def refuse(self, uri: str, number: int, column: str, reason: str) -> None:
        """Count a bad record.

        Raises
        ------
        DataError
            None may be left out.
        """
        if self._skips is None:
            feed = "" if column == RECORD else f", feed {column!r}"
            raise DataError(
                f"{uri}, record {number}{feed}: {reason}. Write it again, or leave such records "
                'out: on_bad="skip".'
            )
        found = Skipped(self._partition, column, 0, number, f"{reason} in {uri}")
        known = self._found.get(column, found)
        self._found[column] = Skipped(
            self._partition, column, known.rows + 1, known.first, known.reason
        )

    def close(self) -> None:
        """Tell the driver what was left out."""
        if self._skips is not None and self._found:
            self._skips.add(self._found)


def _wrong(column: Array, label: Label) -> npt.NDArray[np.bool_]:
    wrong = np.zeros(len(column), bool)
    if column.dtype.kind == "f":
        wrong |= ~np.isfinite(column).reshape(len(column), -1).all(axis=1)
    if label.narrow is not None:
        wrong |= beyond(column, label.narrow).reshape(len(column), -1).any(axis=1)
    if label.classes is not None:
        wrong |= outside(column, label.classes)
    return wrong


def _reason(value: Array, label: Label) -> str:
    flat = np.ravel(value)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        return f"expected finite numbers, got {flat[~np.isfinite(flat)][0]}"
    if label.narrow is not None and (wrong := beyond(flat, label.narrow)).any():
        return f"expected {integers(label.narrow)}, got {flat[wrong][0]}"
    return f"expected whole labels from 0 to {(label.classes or 0) - 1}, got {value}"
