"""What a program is fed, held against what the data are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..common.arrays import STRING, Array, dtype_of, is_finite
from ..errors import DataError, ShapeMismatch
from .block import Columns, ColumnSpec, is_castable
from .naming import Field


class Feed(Field, Protocol):
    """What `check_columns` needs to know of a program's input.

    `shape` leaves out the row dimension; None in it fits any length, None for it any shape.
    """

    @property
    def dtype(self) -> str | None:
        """Name of its numpy dtype; None to take the data's own."""

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """Shape of one row."""

    @property
    def classes(self) -> int | None:
        """How many classes its labels are of, from 0; None for what is not a label, or unknown."""


WEIGHTS = (
    " If the last one is how much each row counts, capture the model with it: "
    "tos.capture(model, weights=True)."
)
"""What most often is one field too many."""

LABELS = (
    " The model's loss compares what it returns with a label. An autoencoder takes its input as "
    "the label as well: (x, x), or one column as features and label."
)
"""What may be one field too few."""

WEIGHT = " The last one is how much each row counts; 1 for each, such as np.ones(len(x)), is even."
"""What it is, where rows have weights."""


def check_columns(found: Sequence[ColumnSpec], expected: Sequence[Feed]) -> None:
    """Check that records fit the feeds of a program.

    Raises
    ------
    ShapeMismatch
        The record has more or fewer fields than there are feeds, or a field's shape or dtype
        does not fit its feed. Floats are not turned into integers.
    """
    if len(found) != len(expected):
        few = WEIGHT if any(feed.part == "weight" for feed in expected) else LABELS
        raise ShapeMismatch(
            f"Expected records of {len(expected)} fields, one for each feed "
            f"({', '.join(feed.name for feed in expected)}); got {len(found)} fields."
            + {1: WEIGHTS, -1: few}.get(len(found) - len(expected), "")
        )
    for field, (column, feed) in enumerate(zip(found, expected, strict=True)):
        fits = _shape_fits(column.shape, feed.shape)
        casts = _casts(column, feed)
        if not fits or not casts:
            shape = "any" if feed.shape is None else str(feed.shape).replace("None", "?")
            place = f"column {column.name!r}" if column.name else f"field {field} of the records"
            raise ShapeMismatch(
                f"Feed {feed.name!r}: expected rows of {feed.dtype or 'any dtype'} with shape "
                f"{shape}, got {column} in {place}. {_remedy(column, feed, fits)}"
            )


def _casts(column: ColumnSpec, feed: Feed) -> bool:
    if feed.dtype is None:
        # A loss takes no text.
        return column.dtype != STRING or feed.part not in ("labels", "weight")
    return is_castable(column.dtype, feed.dtype, "same_kind")


def _remedy(column: ColumnSpec, feed: Feed, fits: bool) -> str:
    if column.dtype == STRING != feed.dtype:
        index = "Index it in Spark, such as with a StringIndexer"
        if feed.part in ("labels", "weight"):
            return f"{index}."
        return (
            f"{index}, or in the model: keras.Input(shape=(1,), dtype='string') and a StringLookup "
            "or TextVectorization layer."
        )
    return f"{'Cast' if fits else 'Reshape'} it, or feed another one."


def _shape_fits(found: tuple[int, ...], expected: tuple[int | None, ...] | None) -> bool:
    if expected is None:
        return True
    return len(found) == len(expected) and all(
        want in (None, have) for have, want in zip(found, expected, strict=True)
    )


def check_values(
    columns: Columns, feeds: Sequence[Feed], where: str = "Row", first: int = 0
) -> None:
    """Check that the program can take rows for what they are.

    Parameters
    ----------
    columns : tuple of ndarray
        Empty for no rows.
    feeds : sequence of Feed
    where : str
        What the number of a row is of, for the message, such as ``"Partition 3, row"``.
    first : int
        The number of the first row.

    Raises
    ------
    DataError
        A label is of none of the classes, or an integer does not fit into the feed's dtype, where
        it would become another number. The first such row is named.
    """
    for column, feed in zip(columns, feeds, strict=False):
        if column.dtype.kind == "O":
            continue
        dtype = narrowed(column.dtype, feed.dtype)
        if dtype is not None and (wrong := beyond(column, dtype)).any():
            row, *at = np.argwhere(wrong)[0]
            raise DataError(
                f"{where} {first + row}, feed {feed.name!r}: expected {integers(dtype)}, got "
                f"{column[(row, *at)]}. Use smaller numbers, such as an index of the values, or "
                "give the input a wider dtype."
            )
        if feed.classes is not None and (wrong := outside(column, feed.classes)).any():
            row = int(wrong.argmax())
            raise DataError(
                f"{where} {first + row}, feed {feed.name!r}: expected whole labels from 0 "
                f"to {feed.classes - 1}, got {column[row]}. Clean the data, or give the model an "
                "output for each class."
            )


def checked(blocks: Iterable[Columns], feeds: Sequence[Feed], where: str) -> Iterator[Columns]:
    """Pass a partition's blocks on; raise as `check_values` at the first row that is bad."""
    first = 0
    for block in blocks:
        check_values(block, feeds, where, first)
        first += len(block[0])
        yield block


def narrowed(found: npt.DTypeLike, expected: str | None) -> str | None:
    """Return the dtype of integers that a program makes of wider ones; None for all else."""
    if expected is None:
        return None
    both = dtype_of(found), dtype_of(expected)
    if any(dtype.kind not in "iu" for dtype in both) or np.can_cast(*both, "safe"):
        return None
    return expected


def beyond(values: Array, dtype: str) -> npt.NDArray[np.bool_]:
    """Return which of some integers do not fit into a dtype of integers.

    Parameters
    ----------
    values : ndarray
    dtype : str

    Returns
    -------
    ndarray, of the shape of `values`, bool
    """
    ends = np.iinfo(dtype)
    # Nearly always all fit; the least and the greatest tell at no cost of memory.
    if not values.size or (values.min() >= ends.min and values.max() <= ends.max):
        return np.zeros(values.shape, bool)
    wrong: npt.NDArray[np.bool_] = (values < ends.min) | (values > ends.max)
    return wrong


def integers(dtype: str) -> str:
    """Return in words what fits into a dtype of integers."""
    ends = np.iinfo(dtype)
    return f"integers from {ends.min} to {ends.max} ({dtype})"


def non_finite(columns: Columns, feeds: Sequence[Feed]) -> tuple[str, dict[int, str]] | None:
    """Find rows that hold NaN or infinity once they are of the dtype that the program takes.

    Parameters
    ----------
    columns : tuple of ndarray, shape (rows, ...)
    feeds : sequence of Feed

    Returns
    -------
    name : str
        Of the first feed that has such rows.
    values : dict of int to str
        By row, at least one: the first such value.

    None if all is finite.
    """
    for column, feed in zip(columns, feeds, strict=False):
        with np.errstate(over="ignore"):
            fed = column.astype(dtype_of(feed.dtype or column.dtype), copy=False)
        if not is_finite(fed):
            places = np.argwhere(~np.isfinite(fed))
            _, first = np.unique(places[:, 0], return_index=True)
            values = {int(at[0]): column[tuple(at)] for at in places[first]}
            large = f", too large for {fed.dtype}"
            texts = {row: f"{v}{large if np.isfinite(v) else ''}" for row, v in values.items()}
            return feed.name, texts
    return None


def outside(labels: Array, classes: int) -> npt.NDArray[np.bool_]:
    """Return which rows hold a label that is not one of 0 to classes - 1, or not whole.

    Parameters
    ----------
    labels : ndarray, shape (rows, ...)
    classes : int

    Returns
    -------
    ndarray, shape (rows,), bool
    """
    wrong = (labels < 0) | (labels >= classes)
    if labels.dtype.kind == "f":
        wrong |= labels != np.floor(labels)
    found: npt.NDArray[np.bool_] = np.any(wrong, axis=tuple(range(1, labels.ndim)))
    return found
