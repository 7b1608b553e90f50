"""What encoded updates leave out, and who finds it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.strategies.ps.residual import ResidualStore, sweep

NBYTES = 128


@pytest.fixture
def executor(tmp_path: Path) -> Path:
    folder = tmp_path / "executor"
    folder.mkdir()
    return folder


def memory(folder: Path | None, task: int = 0, run: str = "r", partition: int = 0) -> ResidualStore:
    return ResidualStore(NBYTES, folder, run, partition, task)


def write(kept: ResidualStore, value: int, place: tuple[int, int], answered: bool = True) -> None:
    kept.next()[:] = value
    kept.keep(place)
    if answered:
        kept.settle()


def found(kept: ResidualStore) -> int | None:
    """The value in every byte, or None if nothing is kept."""
    residual = kept.residual
    if residual is None:
        return None
    (value,) = set(residual.tolist())
    return int(value)


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_is_written_counts_once_it_is_kept(executor: Path, on_disk: bool) -> None:
    kept = memory(executor if on_disk else None)
    kept.begin((0, 0))
    assert found(kept) is None
    write(kept, 7, (0, 1))
    kept.next()[:] = 9
    assert found(kept) == 7
    kept.keep((0, 2))
    assert found(kept) == 9
    kept.forget((0, 3))
    kept.settle()
    assert found(kept) is None


@given(
    pushes=st.integers(1, 6),
    epochs=st.integers(1, 3),
    died=st.sampled_from(["before it was written", "before it was kept", "before the server"]),
)
def test_a_later_attempt_goes_on_from_what_was_committed(
    tmp_path_factory: pytest.TempPathFactory, pushes: int, epochs: int, died: str
) -> None:
    """However far the last push got that the server does not have."""
    folder = tmp_path_factory.mktemp("executor")
    first = memory(folder, task=1)
    first.begin((0, 0))
    value = 0
    for epoch in range(epochs):
        for push in range(pushes):
            value += 1
            write(first, value, (epoch, push + 1))
    lost = (epochs - 1, pushes)
    if died != "before it was written":
        first.next()[:] = 200
    if died == "before the server":
        first.keep((epochs - 1, pushes + 1))
    again = memory(folder, task=2)
    again.begin(lost, before=1)
    assert found(again) == value
    assert [path.name for path in folder.iterdir()] == ["tos-r.0.2.residual"]


def test_the_next_epoch_begins_with_what_the_last_one_left(executor: Path) -> None:
    write(memory(executor, task=1), 5, (0, 3))
    later = memory(executor, task=2)
    later.begin((1, 0))
    assert found(later) == 5


def test_what_has_travelled_is_not_found_again(executor: Path) -> None:
    first = memory(executor, task=1)
    write(first, 5, (0, 1))
    first.forget((0, 2))
    first.settle()
    later = memory(executor, task=2)
    later.begin((0, 2))
    assert found(later) is None


@pytest.mark.parametrize(("place", "left"), [((0, 1), 5), ((0, 2), 0)])
def test_what_travels_is_kept_until_it_has_arrived(
    executor: Path, place: tuple[int, int], left: int
) -> None:
    first = memory(executor, task=1)
    write(first, 5, (0, 1))
    first.forget((0, 2))
    later = memory(executor, task=2)
    later.begin(place, before=1)
    assert found(later) == left


@pytest.mark.parametrize(("answered", "left"), [(True, 6), (False, None)])
def test_what_others_may_have_sent_meanwhile_is_not_sent_again(
    executor: Path, answered: bool, left: int | None
) -> None:
    """They trained elsewhere: this executor does not know whether the last push counts."""
    first = memory(executor, task=1)
    write(first, 5, (0, 1))
    write(first, 6, (0, 2), answered)
    later = memory(executor, task=3)
    later.begin((1, 0), before=2)
    assert found(later) == left


@pytest.mark.parametrize(("before", "left"), [(1, 6), (2, None)])
def test_a_push_without_an_answer_counts_for_the_attempt_that_follows_at_once(
    executor: Path, before: int, left: int | None
) -> None:
    """Another one may have sent a push of that number itself."""
    first = memory(executor, task=1)
    write(first, 5, (0, 1))
    write(first, 6, (0, 2), answered=False)
    later = memory(executor, task=3)
    later.begin((0, 2), before)
    assert found(later) == left


def test_others_are_left_alone(executor: Path) -> None:
    write(memory(executor, partition=11), 5, (0, 1))
    write(memory(executor, run="r-1"), 6, (0, 1))
    mine = memory(executor, task=9, partition=1)
    mine.begin((0, 1))
    assert found(mine) is None
    assert len(list(executor.iterdir())) == 2


def test_a_file_that_was_cut_off_is_passed_over(executor: Path) -> None:
    write(memory(executor, task=1), 5, (0, 1))
    os.truncate(executor / "tos-r.0.1.residual", 100)
    later = memory(executor, task=2)
    later.begin((0, 1))
    assert found(later) is None
    assert list(executor.iterdir()) == []


def test_the_file_is_nobody_else_s_and_goes_with_the_run(executor: Path) -> None:
    write(memory(executor), 5, (0, 1))
    write(memory(executor, run="other"), 5, (0, 1))
    assert {stat.S_IMODE(path.stat().st_mode) for path in executor.iterdir()} == {0o600}
    sweep(executor, "r")
    assert [path.name for path in executor.iterdir()] == ["tos-other.0.0.residual"]


def test_a_residual_is_aligned_as_vectors_need_it(executor: Path) -> None:
    kept = memory(executor)
    write(kept, 0, (0, 1))
    assert kept.residual is not None
    assert kept.residual.view(np.float64).ctypes.data % 64 == 0
