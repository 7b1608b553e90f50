"""A row of a served table begins the same for each worker that asks, with any other rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.long import examples
from tos_notebook.common.served import First, ServedTable, shard_of

TABLE = ServedTable("users", 1_000_000_000, 8, 100)
FIRSTS = [
    First("constant", 0.25),
    First("uniform", -0.5, 0.5),
    First("normal", 1.0, 0.1),
    First("truncated normal", 0.0, 0.1),
]

ids = st.lists(st.integers(0, TABLE.rows - 1), min_size=1, max_size=20, unique=True)


@pytest.mark.parametrize("first", FIRSTS, ids=lambda first: first.distribution)
@examples(0.5)
@given(ids)
def test_a_row_begins_the_same_alone_and_among_others(first: First, numbers: list[int]) -> None:
    table = replace(TABLE, first=first, kept=(0.0, 0.1))
    together = table.begin(np.array(numbers))
    alone = [table.begin(np.array([number]))[0] for number in numbers]
    assert together.shape == (len(numbers), 24)
    assert np.array_equal(together, alone)
    assert (together[:, 8:16] == 0).all()
    assert (together[:, 16:] == np.float32(0.1)).all()


def test_rows_have_the_distribution_that_was_asked_for() -> None:
    numbers = np.arange(5000)
    found = {f.distribution: replace(TABLE, first=f).begin(numbers) for f in FIRSTS}
    uniform, normal = found["uniform"], found["normal"]
    assert -0.5 <= uniform.min() < -0.49
    assert 0.49 < uniform.max() < 0.5
    assert normal.mean() == pytest.approx(1.0, abs=0.01)
    assert normal.std() == pytest.approx(0.1, rel=0.02)
    truncated = found["truncated normal"]
    assert np.abs(truncated).max() <= 0.2
    # What Keras divides by, so that the standard deviation is the one asked for.
    assert truncated.std() == pytest.approx(0.1 * 0.8796, rel=0.02)


def test_other_seeds_and_other_tables_begin_otherwise() -> None:
    numbers = np.arange(10)
    rows = [t.begin(numbers) for t in (TABLE, replace(TABLE, seed=1), replace(TABLE, name="b"))]
    assert not np.isin(rows[0], rows[1]).any()
    assert not np.isin(rows[0], rows[2]).any()


@given(ids, st.integers(1, 7))
def test_each_row_has_one_shard(numbers: list[int], shards: int) -> None:
    owners = shard_of(np.array(numbers), shards)
    assert ((owners >= 0) & (owners < shards)).all()
    assert shard_of(np.array(numbers[:1]), shards)[0] == owners[0]


def test_shards_have_about_as_many_rows_each() -> None:
    counts = np.bincount(shard_of(np.arange(30_000), 3))
    assert np.ptp(counts) < 1000


def test_a_table_survives_json() -> None:
    table = replace(TABLE, kept=(0.1,), first=FIRSTS[2])
    assert ServedTable.from_json(table.to_json()) == table


def test_another_distribution_is_refused() -> None:
    with pytest.raises(ValueError, match="cauchy"):
        ServedTable.from_json(
            TABLE.to_json() | {"first": {"distribution": "cauchy", "a": 0.0, "b": 1.0}}
        )
