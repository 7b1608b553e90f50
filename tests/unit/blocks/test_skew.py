from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.blocks.labels import class_counts, count_labels, skew
from tos_notebook.data.arrays import ArraySource

X = FeedSpec("x", None, None)


def counts(labels: Any, partitions: int, seed: int | None = None) -> dict[int, dict[int, int]]:
    source = ArraySource((labels, labels), partitions)
    laid = source if seed is None else source.dealt(partitions, seed)
    return {p: count_labels([laid.rows(p)]) for p in range(partitions)}


@pytest.mark.parametrize(("classes", "rows", "partitions"), [(3, 50, 2), (10, 140, 2), (2, 50, 8)])
def test_sorted_rows_are_told_and_dealt_ones_are_not(
    classes: int, rows: int, partitions: int
) -> None:
    labels = np.repeat(np.arange(classes), rows)
    assert skew(counts(labels, partitions)) is not None
    assert [skew(counts(labels, partitions, seed)) for seed in range(20)] == [None] * 20


def test_the_partition_that_differs_most_is_named_with_the_remedy() -> None:
    found = skew({0: {0: 50, 1: 50}, 1: {0: 60, 1: 40}, 2: {1: 100}})
    assert found is not None
    assert "100% of partition 2's rows have label 1, and 63% of all rows" in found
    assert "repartition_every=1" in found


def test_few_rows_differ_by_chance() -> None:
    assert skew({0: {0: 1}, 1: {1: 1}, 2: {2: 2}}) is None


@pytest.mark.parametrize("nothing", [{}, {0: {}}, {0: {}, 1: {3: 5}}])
def test_nothing_to_compare_is_no_skew(nothing: dict[int, dict[int, int]]) -> None:
    assert skew(nothing) is None


def test_the_label_of_known_classes_is_counted_not_the_weight_behind_it() -> None:
    columns = np.zeros((4, 2)), np.array([1, 0, 1, 1]), np.array([0.5, 2.0, 1.0, 1.0])
    feeds = X, FeedSpec("y", None, None, 2), FeedSpec("weight", None, None)
    assert class_counts(columns, feeds) == {0: 1, 1: 3}


@pytest.mark.parametrize(
    "columns",
    [
        (),
        (np.zeros((4, 2)),),
        (np.zeros((4, 2)), np.array([0.1, 0.2, 0.3, 0.4])),
        (np.zeros(2000), np.arange(2000)),
    ],
)
def test_what_is_no_class_is_not_counted(columns: Any) -> None:
    assert class_counts(columns, (X, X)) == {}
