"""Records of files that cannot be trained on: named, or left out and counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tos_notebook.errors import DataError

from .blocks import Array, Columns
from .feeds import Feed, outside
from .skips import Skipped, Skips

Label = tuple[str, int | None]
"""Name of a feed, and of how many classes its labels are; None for what is no label, or unknown."""

RECORD = "record"
"""In place of a column's name, where the whole record is bad."""


def labels_of(feeds: Sequence[Feed], fields: int) -> tuple[Label, ...]:
    """Return what a `Sieve` needs to know of each of the fields of a record."""
    known = [(feed.name, feed.classes) for feed in feeds]
    return tuple(known[:fields] + [(f"field {n}", None) for n in range(len(known), fields)])


class Sieve:
    """Takes bad records out of a partition, inside a Spark task.

    Parameters
    ----------
    labels : sequence of Label
        One for each column.
    skips : Skips or None
        Where to count them; None to raise at the first.
    partition : int
    """

    def __init__(self, labels: Sequence[Label], skips: Skips | None, partition: int) -> None:
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
        for (name, classes), column in zip(self._labels, block, strict=True):
            for row in np.flatnonzero(good & _wrong(column, classes)):
                self.refuse(uri, int(numbers[row]), name, _reason(column[row], classes))
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


def _wrong(column: Array, classes: int | None) -> npt.NDArray[np.bool_]:
    wrong = np.zeros(len(column), bool)
    if column.dtype.kind == "f":
        wrong |= ~np.isfinite(column).reshape(len(column), -1).all(axis=1)
    if classes is not None:
        wrong |= outside(column, classes)
    return wrong


def _reason(value: Array, classes: int | None) -> str:
    flat = np.ravel(value)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        return f"expected finite numbers, got {flat[~np.isfinite(flat)][0]}"
    return f"expected whole labels from 0 to {(classes or 0) - 1}, got {value}"
