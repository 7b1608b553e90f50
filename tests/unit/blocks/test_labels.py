"""Partitioners by label, over arrays: what they promise of the layout, and what they refuse."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.blocks.labels import Deal, count_labels, labels_of
from tos_notebook.blocks.partitioners import (
    Dirichlet,
    LabelPartitioner,
    Partitioner,
    RandomPartitioner,
    Shards,
)
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import ConfigError, DataError

Labels = npt.NDArray[np.int64]

LABELS = st.lists(st.integers(-2, 5), min_size=1, max_size=60).map(np.array)
PARTITIONERS = st.one_of(
    st.builds(Shards, st.integers(1, 5), st.integers(1, 3), st.integers(0, 9)),
    st.builds(Dirichlet, st.integers(1, 5), st.floats(1e-6, 1e6), st.integers(0, 9)),
)


class Fixed:
    """Deals out pieces that a test has thought of."""

    num_partitions = 2

    def __init__(self, ends: Any, targets: Any) -> None:
        self.pieces = ends, targets

    def deal(self, counts: Labels) -> Any:
        return self.pieces

    def __repr__(self) -> str:
        return "Fixed"


def source(labels: Any, partitions: int = 3) -> ArraySource:
    """Return rows that are their own numbers, with labels."""
    return ArraySource((np.arange(len(labels)), np.asarray(labels)), partitions)


def layout(labels: Any, partitioner: LabelPartitioner, epoch: int = 0) -> list[list[int]]:
    laid = source(labels).repartition(partitioner.num_partitions, partitioner, epoch)
    return [laid.rows(p)[0].tolist() for p in range(laid.partitions)]


def mixes(labels: Labels, partitioner: LabelPartitioner) -> npt.NDArray[np.float64]:
    """Return the share of each label in each partition."""
    counts = np.array(
        [np.bincount(labels[part], minlength=10) for part in layout(labels, partitioner)]
    )
    return counts / counts.sum(axis=1, keepdims=True)


def enough(labels: Labels, partitioner: LabelPartitioner) -> bool:
    if not isinstance(partitioner, Shards):
        return True
    return partitioner.num_partitions * partitioner.shards_per_partition <= len(labels)


def test_partitioners_of_both_kinds_are_told_apart() -> None:
    for by_label in (Shards(2), Dirichlet(2, 1.0)):
        assert isinstance(by_label, LabelPartitioner)
        assert not isinstance(by_label, Partitioner)
    assert not isinstance(RandomPartitioner(2), LabelPartitioner)


@given(LABELS, PARTITIONERS)
def test_every_row_is_in_one_partition_and_in_its_old_order(
    labels: Labels, partitioner: LabelPartitioner
) -> None:
    if not enough(labels, partitioner):
        with pytest.raises(ConfigError, match="at least a row for each"):
            layout(labels, partitioner)
        return
    found = layout(labels, partitioner)
    assert sorted(chain.from_iterable(found)) == list(range(len(labels)))
    assert all(part == sorted(part) for part in found)


@given(LABELS, PARTITIONERS, st.integers(0, 99), st.integers(1, 6))
def test_a_layout_is_a_function_of_rows_and_partitioner_alone(
    labels: Labels, partitioner: LabelPartitioner, epoch: int, partitions: int
) -> None:
    """The same in every epoch, however the rows were cut at first; from counts by partition too."""
    if not enough(labels, partitioner):
        return
    expected = layout(labels, partitioner)
    assert layout(labels, partitioner, epoch) == expected
    parts = np.array_split(labels, partitions)
    deal = Deal.by(partitioner, [count_labels([(p, p)]) for p in parts], partitioner.num_partitions)
    targets = np.concatenate([deal.assign(part, n) for n, part in enumerate(parts)])
    found = [np.flatnonzero(targets == p).tolist() for p in range(partitioner.num_partitions)]
    assert found == expected


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 50), st.integers(0, 9))
def test_shards_are_even_and_each_partition_has_as_many(
    partitions: int, each: int, extra: int, seed: int
) -> None:
    counts = np.array([partitions * each + extra])
    ends, owners = Shards(partitions, each, seed).deal(counts)
    sizes = np.diff(ends, prepend=0)
    assert sizes.max() - sizes.min() <= 1
    assert ends[-1] == counts.sum()
    assert np.bincount(owners).tolist() == [each] * partitions


def test_two_shards_of_mnist_hold_two_labels_for_most() -> None:
    """As in the paper: 200 shards of 300 rows, of which each of 100 clients has two."""
    labels = np.repeat(np.arange(10), 6000)
    np.random.default_rng(0).shuffle(labels)
    found = layout(labels, Shards(100, seed=1))
    assert [len(part) for part in found] == [600] * 100
    kinds = [len(np.unique(labels[part])) for part in found]
    assert set(kinds) == {1, 2}
    assert kinds.count(2) > 80


def test_a_large_alpha_gives_every_partition_the_mix_of_all_rows() -> None:
    labels = np.arange(20_000) % 10
    assert np.abs(mixes(labels, Dirichlet(8, 1e6)) - 0.1).max() < 0.005


def test_a_small_alpha_gives_every_partition_one_label() -> None:
    labels = np.arange(20_000) % 3
    found = mixes(labels, Dirichlet(12, 1e-6))
    assert sorted(found.max(axis=1)) == [1.0] * 12
    assert len(set(found.argmax(axis=1))) == 3


def test_a_label_that_no_partition_drew_goes_to_one_all_the_same() -> None:
    """One partition draws one label of ten, and gets all rows."""
    assert len(layout(np.arange(100) % 10, Dirichlet(1, 1e-9))[0]) == 100


def test_shares_are_those_of_the_dirichlet_distribution() -> None:
    """Of a symmetric one over k labels, a share's variance is (k-1) / (k² (kα+1))."""
    labels, partitions, alpha, rows = 4, 20_000, 0.7, 10**12
    ends, _ = Dirichlet(partitions, alpha).deal(np.full(labels, rows))
    # Divided by label: with so many partitions that is by a constant.
    drawn = np.diff(ends, prepend=0) / rows * partitions / labels
    variance = (labels - 1) / (labels**2 * (labels * alpha + 1))
    assert drawn.mean() == pytest.approx(1 / labels, rel=1e-6)
    assert drawn.var() == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize("make", [lambda seed: Shards(4, seed=seed), lambda s: Dirichlet(4, 1, s)])
def test_another_seed_deals_otherwise(make: Any) -> None:
    labels = np.arange(200) % 10
    assert layout(labels, make(0)) == layout(labels, make(0)) != layout(labels, make(1))


@pytest.mark.parametrize(
    "column",
    [
        np.array([2, 0, 1], np.uint8),
        np.array([2.0, 0.0, 1.0], np.float32),
        np.array([[2], [0], [1]]),
        np.eye(3, dtype=np.float32)[[2, 0, 1]],
        np.eye(3, dtype=np.uint8)[[2, 0, 1]],
        np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.0, 1.0, 0.0]]),
    ],
    ids=["integers", "floats", "one wide", "one-hot", "one-hot integers", "probabilities"],
)
def test_labels_may_come_in_any_form(column: Any) -> None:
    assert labels_of((np.zeros(3), column)).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((np.zeros(2),), "records of 1 field, no label"),
        ((np.zeros(2), np.array([1.0, 0.25])), r"whole numbers.*Got 0\.25 of float64"),
        ((np.zeros(2), np.array([1.0, np.nan])), "Got nan of float64"),
        ((np.zeros(2), np.array([[1, 0], [1, 1]])), r"Got the row \[1 1\], whose sum is not 1"),
        ((np.zeros(2), np.array([[1, 0], [-1, 2]])), r"Got the row \[-1  2\]"),
        ((np.zeros(2), np.zeros((2, 3, 3))), r"Got float64 of shape \(3, 3\)"),
        ((np.zeros(2), np.zeros(2, complex)), "Got complex128"),
    ],
)
def test_data_without_labels_are_refused(columns: Any, message: str) -> None:
    with pytest.raises(DataError, match="(?s)Expected class labels.*" + message):
        ArraySource(columns, 1).repartition(2, Shards(2, 1), 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Shards(0), "num_partitions: .* at least 1, got 0"),
        (lambda: Shards(2, 0), "shards_per_partition: .* at least 1, got 0"),
        (lambda: Shards(2, seed=-1), "seed: .* at least 0, got -1"),
        (lambda: Dirichlet(0, 1), "num_partitions: .* at least 1, got 0"),
        (lambda: Dirichlet(2, 0), "alpha: .* above 0, got 0"),
        (lambda: Dirichlet(2, -0.5), "alpha: .* above 0, got -0.5"),
        (lambda: Dirichlet(2, float("nan")), "alpha: .* got nan"),
    ],
)
def test_settings_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_more_shards_than_rows_are_refused() -> None:
    message = r"Shards\(2, 3, seed=0\): expected at least a row for each of its 6 shards, got 5"
    with pytest.raises(ConfigError, match=message):
        layout([0, 1, 0, 1, 0], Shards(2, 3))


def test_a_partitioner_for_another_number_of_partitions_is_refused() -> None:
    with pytest.raises(ConfigError, match="layout's 4 partitions, got 2"):
        source([0, 1]).repartition(4, Shards(2, 1), 0)


@pytest.mark.parametrize(
    ("ends", "targets", "message"),
    [
        ([2, 3], [0, 1], "the last at 4 rows"),
        ([4, 3, 4], [0, 1, 0], "ascending ends"),
        ([2, 4], [0], r"targets of shape \(1,\)"),
        ([], [], "the last at 4 rows"),
        ([2, 4], [0, 2], r"target partitions in 0\.\.1, got 0\.\.2"),
        ([2, 4], [-1, 0], r"target partitions in 0\.\.1, got -1\.\.0"),
    ],
)
def test_pieces_that_are_not_all_rows_are_refused(ends: Any, targets: Any, message: str) -> None:
    with pytest.raises(ConfigError, match="Fixed: expected.*" + message):
        layout([5, 5, 7, 7], Fixed(ends, targets))


def test_users_write_their_own() -> None:
    """Sorted by label the rows are 0, 2, 1, 3; the second piece is empty."""
    assert layout([5, 7, 5, 7], Fixed([1, 1, 4], [0, 0, 1])) == [[0], [1, 2, 3]]


def test_rows_other_than_those_counted_are_refused() -> None:
    deal = Deal.by(Shards(2, 1), [{0: 2}, {1: 2}], 2)
    with pytest.raises(DataError, match=r"Partition 1 does not hold the labels .* cache the data"):
        deal.assign(np.array([0, 1]), 1)
