from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tos_notebook as tos
from tos_notebook.blocks.partitioners import (
    Partitioner,
    RandomPartitioner,
    checked_assignment,
)
from tos_notebook.errors import ConfigError


class Fixed:
    """A user's own partitioner."""

    def __init__(self, targets: Any) -> None:
        self.targets = np.array(targets)

    def assign(self, rows: int, epoch: int, partition: int) -> Any:
        return self.targets


@given(st.integers(0, 300), st.integers(1, 9), st.integers(-(2**70), 2**70), st.integers(0, 99))
def test_an_assignment_is_pure_and_in_range(rows: int, count: int, seed: int, epoch: int) -> None:
    partitioner = RandomPartitioner(count, seed)
    targets = checked_assignment(partitioner, rows, epoch, 3, count)
    assert targets.shape == (rows,)
    again = RandomPartitioner(count, seed).assign(rows, epoch, 3)
    np.testing.assert_array_equal(targets, again)


@given(st.integers(0, 300), st.integers(1, 9), st.integers(0, 99))
def test_every_partition_gets_as_many_rows(rows: int, count: int, partition: int) -> None:
    found = np.bincount(RandomPartitioner(count).assign(rows, 0, partition), minlength=count)
    assert found.max() - found.min() <= 1


def test_sources_of_one_row_are_spread_over_all_partitions() -> None:
    partitioner = RandomPartitioner(4)
    targets = [partitioner.assign(1, 0, source)[0] for source in range(4000)]
    assert np.abs(np.bincount(targets, minlength=4) - 1000).max() < 5 * np.sqrt(1000)


@pytest.mark.parametrize("other", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_seed_epoch_and_source_each_give_an_independent_assignment(
    other: tuple[int, int, int],
) -> None:
    seed, epoch, partition = other
    first = RandomPartitioner(2, 0).assign(10_000, 0, 0)
    second = RandomPartitioner(2, seed).assign(10_000, epoch, partition)
    assert abs(np.mean(first == second) - 0.5) < 0.03


def test_users_write_their_own() -> None:
    assert isinstance(Fixed([]), Partitioner)
    assert checked_assignment(Fixed([1, 0, 1]), 3, 0, 0, 2).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([0, 1], r"expected integers of shape \(3,\), got int64 of shape \(2,\)"),
        ([0.0, 1.0, 1.0], r"expected integers of shape \(3,\), got float64"),
        ([0, 1, 2], r"expected target partitions in 0\.\.1, got 0\.\.2"),
        ([0, -1, 1], r"expected target partitions in 0\.\.1, got -1\.\.1"),
    ],
)
def test_a_wrong_assignment_is_refused(targets: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checked_assignment(Fixed(targets), 3, 0, 0, 2)


def test_every_partitioner_is_described_with_an_example_that_can_be_typed() -> None:
    rows = tos.partitioners.describe()
    assert [row["name"] for row in rows] == ["RandomPartitioner", "Shards", "Dirichlet"]
    assert all(row["summary"] and row["when"] for row in rows)
    for row in rows:
        assert type(eval(row["example"], vars(tos.partitioners))).__name__ == row["name"]
    assert "<table>" in str(rows._repr_html_())


def test_no_partitions_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        RandomPartitioner(0)
