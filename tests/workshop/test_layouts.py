"""The exercises on layouts: right ones are praised, typical wrong ones get the hint that fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.workshop.looks import said
from tos_notebook.blocks.partitioners import Shards


def test_the_number_of_digits_in_three_shards() -> None:
    assert said("layouts.shards", 6).startswith("Right. Each of its three shards")
    assert "shortly before the end of a digit" in said("layouts.shards", 3)
    assert "How many borders" in said("layouts.shards", 10)
    assert "in the place of None" in said("layouts.shards", None)


def test_the_answer_is_what_shards_can_do() -> None:
    """With as many rows of each label as in the notebook."""
    counts = np.array([151, 147, 141, 154, 151, 142, 137, 140, 135, 139])
    most = 0
    for seed in range(200):
        ends, owners = Shards(10, 3, seed).deal(counts)
        labels = np.repeat(np.arange(10), counts)
        owner = np.repeat(owners, np.diff(ends, prepend=0))
        most = max(most, *(len(set(labels[owner == part].tolist())) for part in range(10)))
    assert most == 6


def shares(table: Any) -> Any:
    return table / table.sum(axis=1, keepdims=True)


def distances(table: Any) -> Any:
    return np.abs(shares(table) - table.sum(axis=0) / table.sum()).sum(axis=1)


def test_a_measure_of_skew() -> None:
    def right(table: Any) -> Any:
        return distances(table).mean() / 2

    assert said("layouts.skew", right).startswith("Right. 0 for one mix everywhere")


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda table: None, "returned None"),
        (distances, "take the mean"),
        (lambda table: np.abs(table - table.mean(axis=0)).mean(), "shares, or counts"),
        (lambda table: distances(table).mean(), "the factor before the sum"),
        (lambda table: distances(table).sum() / 2, "not their sum"),
        (lambda table: 0.0, "By hand"),
        (lambda table: distances(table) @ table.sum(axis=1) / table.sum() / 2, "each partition"),
        (lambda table: table["digit"], "IndexError"),
    ],
)
def test_other_measures(wrong: Any, hint: str) -> None:
    assert hint in said("layouts.skew", wrong)


class Cards:
    num_partitions = 3

    def __init__(self, assign: Any) -> None:
        self.assign = assign


def test_rows_dealt_out_like_cards() -> None:
    right = Cards(lambda rows, epoch, partition: (np.arange(rows) + epoch) % 3)
    assert said("layouts.cards", right).startswith("Right. As even as can be")


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda rows, epoch, partition: None, "returned None"),
        (lambda rows, epoch, partition: np.arange(rows) / 3, "whole numbers"),
        (lambda rows, epoch, partition: [epoch % 3], "a target for each row"),
        (lambda rows, epoch, partition: np.random.randint(0, 3, rows), "answered differently"),
        (lambda rows, epoch, partition: np.arange(rows) + epoch, "partitions 0 to 2"),
        (lambda rows, epoch, partition: np.arange(rows) // 4, "each partition in turn"),
        (lambda rows, epoch, partition: np.arange(rows) % 3, "use the epoch"),
        (lambda rows, epoch, partition: (np.arange(rows) + 2 * epoch) % 3, "one partition further"),
    ],
)
def test_rows_dealt_out_otherwise(wrong: Any, hint: str) -> None:
    assert hint in said("layouts.cards", Cards(wrong))


class ByLabel:
    num_partitions = 3

    def __init__(self, deal: Any) -> None:
        self.deal = deal


def test_labels_dealt_out_in_turn() -> None:
    right = ByLabel(lambda counts: (np.cumsum(counts), np.arange(len(counts)) % 3))
    assert said("layouts.by_label", right).startswith("Right. As non-IID as it gets")


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda counts: ([counts.sum()], [0]), "All rows went to one partition"),
        (lambda counts: (counts, np.arange(len(counts)) % 3), "ascending ends"),
        (lambda counts: (np.cumsum(counts), np.arange(len(counts))), "0..2"),
        (
            lambda counts: (counts.sum() * np.arange(1, 4) // 3, np.arange(3)),
            "a piece should end where a label ends",
        ),
        (lambda counts: (np.cumsum(counts), np.arange(len(counts)) // 3), "expected them in turn"),
        (lambda counts: None, "TypeError"),
    ],
)
def test_labels_dealt_out_otherwise(wrong: Any, hint: str) -> None:
    assert hint in said("layouts.by_label", ByLabel(wrong))
