"""Workers and shards of a run with served tables: each change counts once, in every shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.strategies.ps.rows.support import WORKERS, Bench, bench
from tos_notebook.archive.runner import Trained
from tos_notebook.combiners import as_combiner
from tos_notebook.common.arrays import Array
from tos_notebook.common.served import First, ServedTable
from tos_notebook.errors import CheckpointError, ConfigError, DataError
from tos_notebook.events import CommandAccepted, CommandLapsed
from tos_notebook.steering.machine import Command

ZEROS = First("constant", 0.0)
TABLES = (
    ServedTable("users", 10**9, 3, 6, ZEROS, kept=(0.5,)),
    ServedTable("items", 50, 2, 50, ZEROS),
)
USED = st.lists(st.integers(0, 49), min_size=1, max_size=6, unique=True).map(sorted)
PUSHES = st.lists(st.tuples(st.integers(0, 2), USED, USED), max_size=10)


class Counting:
    """A program that adds 1 to each value of the rows that it needs."""

    def __init__(self, users: Sequence[int], items: Sequence[int], spoiled: bool = False) -> None:
        self.ids = [np.array(users, np.int64), np.array(items, np.int64)]
        self.spoiled = spoiled
        self.placed: list[Array] = []

    def served_ids(self, columns: Any) -> list[Array]:
        return self.ids

    def place_rows(self, ids: list[Array], rows: list[Array]) -> None:
        self.placed = [row.copy() for row in rows]

    def train(self, vectors: Any, columns: Any, batch_size: int) -> Trained:
        return Trained([], {})

    def train_rows(self, *arguments: Any) -> None:
        return None

    def take_rows(self, ids: list[Array]) -> list[Array]:
        added = [rows + (np.inf if self.spoiled else 1) for rows in self.placed]
        return [rows.astype(np.float32) for rows in added]


def train(run: Bench, number: int, program: Counting) -> None:
    """Let a worker train a milestone, and push it."""
    worker = run.worker(number)
    worker.train(program, [np.zeros(4)], 2)
    run.send(number, worker.write([t.copy() for t in run.adopted(number).values()]))


def counts(run: Bench) -> list[list[int]]:
    """Return how often each of the first rows was trained."""
    found = [run.trainer.parameters.find_rows(n, np.arange(50)) for n in range(2)]
    assert all((rows[:, :w] == rows[:, :1]).all() for rows, w in zip(found, (3, 2), strict=True))
    return [rows[:, 0].astype(int).tolist() for rows in found]


@settings(max_examples=10, deadline=None)
@given(PUSHES, st.integers(1, 3))
def test_each_push_counts_once_in_each_of_its_rows(
    pushes: list[tuple[int, list[int], list[int]]], shards: int
) -> None:
    expected = np.zeros((2, 50), int)
    with bench("downpour", shards=shards, served=TABLES) as run:
        run.worker(0)
        for number, *used in pushes:
            train(run, number, Counting(*used))
            for row, ids in zip(expected, used, strict=True):
                row[ids] += 1
        assert counts(run) == expected.tolist()
        run.trainer.parameters.close()
        assert counts(run) == expected.tolist()


def test_a_worker_gets_the_rows_as_the_push_before_has_left_them() -> None:
    with bench("downpour", shards=2, served=TABLES) as run:
        train(run, 0, Counting([3, 5], [7]))
        program = Counting([2, 3], [7])
        train(run, 1, program)
        assert program.placed[0].tolist() == [[0, 0, 0, 0.5, 0.5, 0.5], [1, 1, 1, 1.5, 1.5, 1.5]]
        assert program.placed[1].tolist() == [[1, 1]]


@pytest.mark.parametrize("shards", [1, 3])
def test_workers_that_wait_get_what_all_have_pushed(shards: int) -> None:
    with bench("downpour", shards=shards, sync="bsp", served=TABLES) as run:
        for number in range(WORKERS):
            run.worker(number)
        for number in range(WORKERS):
            train(run, number, Counting([5, 6], [number]))
        for number in sorted(run.waiting):
            run.go_on(number)
        program = Counting([5], [0, 1, 2])
        train(run, 1, program)
        assert program.placed[0][0, :3].tolist() == [WORKERS] * 3
        assert (program.placed[1] == 1).all()


@pytest.mark.parametrize("shards", [(1, 3), (3, 2)], ids=str)
def test_another_number_of_shards_continues_from_a_copy(shards: tuple[int, int]) -> None:
    with bench("downpour", shards=shards[0], served=TABLES) as run:
        train(run, 0, Counting([1, 2], [3]))
        run.trainer.snapshot(lambda: None)
        train(run, 0, Counting([2], [3, 4]))
        copied = run.trainer.snapshot(lambda: None)
        train(run, 0, Counting([1], [1]))
        strategy_parts = run.strategy.to_parts(copied)
    with bench("downpour", shards=shards[1], served=TABLES) as run:
        run.restart(run.strategy.from_parts(*strategy_parts))
        assert [np.flatnonzero(each).tolist() for each in counts(run)] == [[1, 2], [3, 4]]
        assert counts(run)[0][1:3] == [1, 2]
        train(run, 1, Counting([2], [4]))
        assert counts(run)[0][1:3] == [1, 3]
        assert counts(run)[1][3:5] == [2, 2]


def test_a_copy_of_other_tables_is_refused() -> None:
    with bench("downpour", shards=1, served=TABLES[:1]) as run:
        copied = run.trainer.snapshot(lambda: None)
    refused = pytest.raises(CheckpointError, match="have to be those from before")
    with bench("downpour", shards=1, served=TABLES) as run, refused:
        run.trainer.restore(copied)


def test_changes_that_are_not_finite_are_left_out_in_all_shards() -> None:
    with bench("downpour", shards=2, served=TABLES) as run:
        run.trainer._non_finite = "skip"
        train(run, 0, Counting([1, 2], [3], spoiled=True))
        train(run, 0, Counting([2], [3]))
        assert [np.flatnonzero(each).tolist() for each in counts(run)] == [[2], [3]]


def test_what_a_worker_has_left_and_nobody_counts_is_forgotten() -> None:
    with bench("downpour", shards=2, served=TABLES) as run:
        worker = run.worker(0)
        worker.train(Counting([1], [2]), [np.zeros(4)], 2)
        for number, link in enumerate(worker._links):
            worker._served.leave(number, link, _place(0, 7))
        train(run, 0, Counting([5], [6]))
        assert [np.flatnonzero(each).tolist() for each in counts(run)] == [[5], [6]]


def _place(epoch: int, sequence: int) -> Any:
    from tests.unit.worker.support import push

    return push(sequence)._replace(epoch=epoch)


@pytest.mark.parametrize(
    ("users", "error", "said"),
    [
        (range(7), ConfigError, r"need 7 different rows of the table.*cache_rows=8"),
        ([10**9], DataError, "expected ids from 0 to 999999999, got 1000000000"),
        ([-1, 3], DataError, "got -1"),
    ],
)
def test_rows_that_a_milestone_cannot_have_are_named(
    users: Sequence[int], error: type[Exception], said: str
) -> None:
    with bench("downpour", shards=2, served=TABLES) as run, pytest.raises(error, match=said):
        train(run, 0, Counting(users, [1]))


@pytest.mark.parametrize("name", ["fedavg", "easgd", "fedadam", "median"])
def test_a_combiner_that_cannot_merge_such_rows_is_refused(name: str) -> None:
    with bench("dynsgd", shards=1, served=TABLES) as run:
        with pytest.raises(ConfigError, match=r"keeps nothing between pushes|whole parameters"):
            run.training.change_settings(Command.SET, "", combiner=as_combiner(name))
        accepted = [e for e in run.events if isinstance(e, CommandAccepted)]
        assert len([e for e in run.events if isinstance(e, CommandLapsed)]) == len(accepted)
        train(run, 0, Counting([1], [2]))
        assert counts(run)[0][1] == 1
