"""Whether partitions differ so much in their labels that workers learn different things."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ..errors import DataError
from .block import Columns
from .feeds import Feed
from .labels import Counts, count_labels

MOST_LABELS = 1000
"""What has more different values is not a label of a class."""

TOLERATED = 0.1
"""The share of a partition's rows that may have other labels than a fair share of all rows."""


def class_counts(columns: Columns, feeds: Sequence[Feed]) -> dict[int, int]:
    """Return how many rows of each class there are; nothing where the labels are not classes.

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
