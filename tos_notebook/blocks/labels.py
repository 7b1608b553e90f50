"""Labels of rows: how many there are of each, rows dealt out by them, partitions that differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.arrays import dtype_of
from ..errors import ConfigError, DataError
from .block import Columns, ColumnSpec
from .feeds import Feed
from .partitioners import AnyPartitioner, Integers, LabelPartitioner, check_targets

Counts = Mapping[int, int]
"""Rows of each label."""

MOST_LABELS = 1000
"""What has more different values is not a label of a class."""

TOLERATED = 0.1
"""The share of a partition's rows that may have other labels than a fair share of all rows."""

_WANTED = "class labels in the last field of the records: whole numbers, or rows of one-hot values"


def check_partitioner(
    partitioner: AnyPartitioner, partitions: int, columns: Sequence[ColumnSpec]
) -> None:
    """Check what can be known before any row is moved.

    Parameters
    ----------
    partitioner : Partitioner or LabelPartitioner
    partitions : int
        Number of partitions of the new layout.
    columns : sequence of ColumnSpec
        What the rows are.

    Raises
    ------
    ConfigError
        The partitioner is for another number of partitions.
    DataError
        It goes by labels, and the last column cannot hold any.
    """
    own = getattr(partitioner, "num_partitions", partitions)
    if own != partitions:
        raise ConfigError(
            f"{partitioner!r}: expected it to be for the layout's {partitions} partitions, "
            f"got {own}. Give both the same number."
        )
    if not isinstance(partitioner, LabelPartitioner):
        return
    if len(columns) < 2:
        raise DataError(f"Expected {_WANTED}. Got records of {len(columns)} field, no label.")
    if len(columns[-1].shape) > 1 or dtype_of(columns[-1].dtype).kind in "cO":
        raise DataError(f"Expected {_WANTED}. Got {columns[-1]}.")


def labels_of(columns: Columns) -> Integers:
    """Return each row's label, from the last column.

    Parameters
    ----------
    columns : tuple of ndarray
        The last of shape (rows,) or (rows, 1): whole numbers, of any real dtype; or
        (rows, classes): one-hot, or probabilities, of which the largest counts.

    Returns
    -------
    ndarray, shape (rows,), int64

    Raises
    ------
    DataError
        The column holds something else.
    """
    column = columns[-1]
    if column.ndim == 2 and column.shape[1] != 1:
        wrong = ~((column >= 0).all(axis=1) & (np.abs(column.sum(axis=1) - 1.0) < 1e-2))
        if wrong.any():
            row = column[wrong][0]
            raise DataError(f"Expected {_WANTED}. Got the row {row}, whose sum is not 1.")
        found: Integers = column.argmax(axis=1)
        return found
    flat = column.reshape(len(column))
    if flat.dtype.kind == "f":
        wrong = ~(np.isfinite(flat) & (flat == np.rint(flat)))
        if wrong.any():
            raise DataError(f"Expected {_WANTED}. Got {flat[wrong][0]} of {flat.dtype}.")
    return flat.astype(np.int64)


def count_labels(blocks: Iterable[Columns]) -> dict[int, int]:
    """Return how many rows of each label there are."""
    found: Counter[int] = Counter()
    for block in blocks:
        labels, counts = np.unique(labels_of(block), return_counts=True)
        found.update(dict(zip(labels.tolist(), counts.tolist(), strict=True)))
    return dict(found)


@dataclass(frozen=True, slots=True)
class Deal:
    """Which target each row goes to, by its place among all rows sorted by label.

    Rows of one label keep their order. Small: it travels to the executors, while what it was
    drawn from stays in the driver.

    Attributes
    ----------
    labels : ndarray, shape (classes,), int64
        Ascending.
    counts : ndarray, shape (sources, classes), int64
        Rows of each label in each source partition.
    ends : ndarray, shape (pieces,), int64
        Where each piece of the sorted rows ends.
    targets : ndarray, shape (pieces,), int64
    """

    labels: Integers
    counts: Integers
    ends: Integers
    targets: Integers

    @classmethod
    def by(cls, partitioner: LabelPartitioner, counts: Sequence[Counts], partitions: int) -> Deal:
        """Ask a partitioner to deal out rows of which each source partition has so many.

        Parameters
        ----------
        partitioner : LabelPartitioner
        counts : sequence of mapping of int to int
            For each source partition, its rows of each label.
        partitions : int
            Number of target partitions.

        Raises
        ------
        ConfigError
            There are too few rows for it, or its pieces are not all rows, or one goes to a
            partition out of range.
        """
        labels = np.array(sorted(set().union(*counts)), np.int64)
        table = np.array([[part.get(label, 0) for label in labels.tolist()] for part in counts])
        pieces = partitioner.deal(table.sum(axis=0))
        ends, targets = (np.asarray(piece, np.int64) for piece in pieces)
        _check_pieces(partitioner, ends, targets, int(table.sum()), partitions)
        return cls(labels, table, ends, targets)

    def assign(self, labels: Integers, partition: int) -> Integers:
        """Return the target partition of each row of one source partition.

        Parameters
        ----------
        labels : ndarray, shape (rows,), int64
        partition : int
            The source partition.

        Raises
        ------
        DataError
            They are not the labels that were counted.
        """
        order = np.argsort(labels, kind="stable")
        expected = np.repeat(self.labels, self.counts[partition])
        if not np.array_equal(labels[order], expected):
            raise DataError(
                f"Partition {partition} does not hold the labels that it held when they were "
                "counted. A partition must hold the same rows at every attempt: cache the data."
            )
        own = self.counts[partition]
        before = np.cumsum(self.counts.sum(axis=0)) - self.counts[partition:].sum(axis=0)
        # Of each label, from its first row here on: consecutive places.
        starts = np.repeat(before - (np.cumsum(own) - own), own)
        places = np.empty(len(labels), np.int64)
        places[order] = starts + np.arange(len(labels))
        found: Integers = self.targets[np.searchsorted(self.ends, places, side="right")]
        return found


def _check_pieces(
    partitioner: Any, ends: Integers, targets: Integers, rows: int, partitions: int
) -> None:
    good = ends.ndim == 1 and ends.shape == targets.shape and (np.diff(ends, prepend=0) >= 0).all()
    if not good or not len(ends) or ends[-1] != rows:
        raise ConfigError(
            f"{partitioner!r}: expected ascending ends of pieces, the last at {rows} rows, and a "
            f"target for each; got {ends} and targets of shape {targets.shape}."
        )
    check_targets(partitioner, targets, partitions)


def class_counts(columns: Columns, feeds: Sequence[Feed]) -> dict[int, int]:
    """Return how many rows of each class there are; nothing where the labels are no classes.

    Parameters
    ----------
    columns : tuple of ndarray
        A partition's rows; empty for none.
    feeds : sequence of Feed
        A label whose classes are known counts, else the last column.
    """
    if len(columns) < 2:
        return {}
    known = (c for c, f in zip(columns, feeds, strict=False) if f.classes is not None)
    try:
        found = count_labels([(columns[0], next(known, columns[-1]))])
    except DataError:
        return {}
    return found if len(found) <= MOST_LABELS else {}


def skew(counts: Mapping[int, Counts]) -> str | None:
    """Say in one sentence that a partition's labels are far from those of all partitions.

    Parameters
    ----------
    counts : mapping of int to mapping of int to int
        By partition, its rows of each label.

    Returns
    -------
    str or None
        None if chance could have made the partitions as different.
    """
    total: Counter[int] = Counter()
    for own in counts.values():
        total.update(own)
    rows = sum(total.values())
    excess = {p: _excess(own, total, rows) for p, own in counts.items() if own}
    worst = max(excess, key=lambda partition: excess[partition], default=None)
    if worst is None or excess[worst] <= 0:
        return None
    own = counts[worst]
    size = sum(own.values())
    label = max(own, key=lambda one: own[one] / size - total[one] / rows)
    return (
        f"Partitions differ in their labels: {own[label] / size:.0%} of partition {worst}'s rows "
        f"have label {label}, and {total[label] / rows:.0%} of all rows. Each worker learns from "
        "one partition, so the model may get worse with more training. Deal the rows: "
        "shuffle=True at the start, or repartition_every=1."
    )


def _excess(own: Counts, total: Counts, rows: int) -> float:
    """Return by how much a partition is further from all rows than chance would have it."""
    size = sum(own.values())
    apart = sum(abs(own.get(n, 0) / size - count / rows) for n, count in total.items()) / 2
    # Twice the mean distance of so many rows that are drawn at random.
    return apart - TOLERATED - 0.8 * math.sqrt(len(total) / size)
