"""Shards that take the slots of workers: it is said, with numbers that fit."""

from __future__ import annotations

import pytest

from tos_notebook.training.turns import in_turns


@pytest.mark.parametrize(
    ("shards", "partitions", "slots", "fits"),
    [
        (3, 2, 4, "All train at once with num_workers=1 or 2 shards."),
        (1, 2, 2, "All train at once with num_workers=1."),
        (2, 5, 4, "All train at once with num_workers=2."),
    ],
)
def test_what_fits_instead_is_named(shards: int, partitions: int, slots: int, fits: str) -> None:
    (said,) = in_turns(shards, partitions, slots)
    free = slots - shards
    assert f"{free} of {partitions} workers can train at a time" in said
    assert said.endswith(fits)


@pytest.mark.parametrize(("shards", "partitions", "slots"), [(0, 9, 2), (2, 2, 4), (1, 1, 1)])
def test_nothing_is_said_where_all_train_at_once_or_no_shard_takes_a_slot(
    shards: int, partitions: int, slots: int
) -> None:
    assert in_turns(shards, partitions, slots) == ()
