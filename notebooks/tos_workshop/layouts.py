"""Exercises of ``07_layouts_and_non_iid_data.ipynb``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tos_notebook.blocks.labels import Deal

from .exercise import exercise, expect

ROWS = 10


@exercise("layouts.shards")
def shards(most: Any) -> str:
    """Take the number of labels that one partition of `Shards(10, 3)` can hold at most."""
    expect(most is not None, "Put a number in the place of None.")
    expect(
        most != 3,
        "No digit's rows are a whole number of shards. What is in a shard that begins shortly "
        "before the end of a digit?",
    )
    expect(
        most == 6,
        "Draw the rows, sorted by digit, as a line. Each digit has 135 rows or more, and each of "
        "the 30 shards has 47 or 48. How many borders between two digits can be inside of one "
        "shard?",
    )
    return (
        "Each of its three shards may cross one border between two digits. Also in the paper's "
        "MNIST, a client with two shards has two digits mostly, and sometimes more."
    )


@exercise("layouts.skew")
def skew(made: Callable[[Any], Any]) -> str:
    """Take a function of a table of counts that returns the mean total variation distance."""
    alike = np.array([[10, 20, 30], [20, 40, 60]])
    expect(made(alike) is not None, "It returned None: return the number.")
    expect(np.shape(made(alike)) == (), "Expected one number for the whole table: take the mean.")
    expect(
        np.isclose(made(alike), 0),
        "Two partitions with one mix, the second twice as large, should give 0. Did you compare "
        "shares, or counts?",
    )
    apart = float(made(np.diag([10, 10, 10, 10])))
    expect(
        apart <= 1,
        f"Four partitions with a digit each gave {apart:g}, but no distance is above 1. Look "
        "at the factor before the sum, and take the mean over the partitions, not their sum.",
    )
    expect(
        np.isclose(apart, 0.75),
        f"Four partitions with a digit each gave {apart:g}. By hand: one of the shares is 1 where "
        "it should be a quarter, three are 0.",
    )
    uneven = float(made(np.array([[80, 10, 0], [0, 0, 10]])))
    expect(
        np.isclose(uneven, 0.5),
        f"A partition of 90 rows and one of 10 gave {uneven:g}. Compare with the shares among all "
        "rows, not with equal shares, and let each partition count as much as any other.",
    )
    return (
        "0 for one mix everywhere. The nearer to 1, the less a partition's rows say about all. "
        "Papers on non-IID data report such a number next to their accuracy."
    )


@exercise("layouts.cards")
def cards(made: Any) -> str:
    """Take a partitioner that deals rows out in turn, each epoch from another partition on."""
    count = made.num_partitions
    dealt = made.assign(ROWS, 0, 0)
    expect(dealt is not None, "assign returned None: return a target for each row.")
    dealt = np.asarray(dealt)
    expect(
        dealt.shape == (ROWS,) and dealt.dtype.kind in "iu",
        f"Expected whole numbers of shape ({ROWS},), a target for each row; got {dealt.dtype} of "
        f"shape {dealt.shape}.",
    )
    expect(
        all(np.array_equal(dealt, made.assign(ROWS, 0, 0)) for _ in range(5)),
        "Asked again about the same rows, it answered differently. A task that Spark tries again "
        "would hold other rows than before: some would be trained twice, others never.",
    )
    expect(
        dealt.min() >= 0 and dealt.max() < count,
        f"There are partitions 0 to {count - 1}; got {dealt.min()} to {dealt.max()}.",
    )
    expect(
        np.array_equal(dealt, _in_turn(count, 0)),
        f"In epoch 0, {ROWS} rows went to {dealt.tolist()}: expected partition 0 first, then each "
        "partition in turn, and from the beginning again.",
    )
    later = np.asarray(made.assign(ROWS, 1, 0))
    expect(not np.array_equal(dealt, later), "Epoch 1 is dealt out as epoch 0 is: use the epoch.")
    epochs = (0, 1, 2, count, count + 1)
    expect(
        all(np.array_equal(made.assign(ROWS, e, 0), _in_turn(count, e)) for e in epochs),
        f"In epoch 1, {ROWS} rows went to {later.tolist()}: expected the first row one partition "
        "further than in epoch 0, and the same for every later epoch, round and round.",
    )
    return (
        "As even as can be, and a pure function. Each caller always gets the same layout, so that "
        "a lost partition can be made again row by row."
    )


def _in_turn(count: int, first: int) -> Any:
    return (np.arange(ROWS) + first) % count


@exercise("layouts.by_label")
def by_label(made: Any) -> str:
    """Take a label partitioner that gives label i to partition i modulo their number."""
    count = made.num_partitions
    labels = 2 * count + 1
    rows = {label: 5 + label for label in range(labels)}
    # Raises where the pieces are not all rows, or go nowhere; the message says so.
    targets = Deal.by(made, [rows], count).assign(np.repeat(list(rows), list(rows.values())), 0)
    owners = np.split(targets, np.cumsum(list(rows.values()))[:-1])
    expect(len(set(targets.tolist())) > 1, "All rows went to one partition: cut them into pieces.")
    expect(
        all(len(set(owner.tolist())) == 1 for owner in owners),
        "The rows of one label went to several partitions: a piece should end where a label ends. "
        "`counts` has the rows of each label; where in the sorted rows does each one end?",
    )
    found = [int(owner[0]) for owner in owners]
    expect(
        found == [label % count for label in range(labels)],
        f"{labels} labels went to the partitions {found}: expected them in turn, from the first "
        "again after the last.",
    )
    return (
        "As non-IID as it gets: no label is known to two partitions. Nothing of a row's label has "
        "left the driver but how many rows have it."
    )
