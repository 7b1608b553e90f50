"""How often workers exchange between two reports: by time, and by what their rows take."""

from __future__ import annotations

from typing import Any

import pytest

from tos_notebook.strategies.allreduce.pace import MILESTONE, MOST, SHARE, Pace
from tos_notebook.worker.exchange import ROOM


class Alone:
    """The only worker, whose numbers are the means."""

    def agree(self, numbers: Any) -> None:
        pass


def paced(rounds: int, seconds: float, report: float = 0.0, nbytes: int = 1) -> int:
    """Return how many rounds follow many milestones like one."""
    pace = Pace()
    pace.reported(report)
    for _ in range(20):
        pace.agree(rounds, seconds, nbytes, Alone())  # type: ignore[arg-type]
    return pace.rounds


@pytest.mark.parametrize(
    ("seconds", "report", "due"),
    [
        (0.001, 0.0, MILESTONE),
        (0.001, 2 * MILESTONE / SHARE, 2 * MILESTONE),
        (0.001, MOST, MOST),
        (10.0, 0.0, 10.0),
    ],
)
def test_a_milestone_takes_its_time_and_more_where_reports_take_long(
    seconds: float, report: float, due: float
) -> None:
    assert paced(1, seconds, report) == pytest.approx(due / seconds, rel=0.01)


def test_a_milestone_grows_to_twice_its_rounds_at_most() -> None:
    pace, seen = Pace(), []
    for _ in range(4):
        pace.agree(1, 1e-6, 1, Alone())  # type: ignore[arg-type]
        seen.append(pace.rounds)
    assert seen == [2, 4, 8, 16]


def test_the_rows_of_a_milestone_stay_within_their_room() -> None:
    assert paced(1, 0.001, nbytes=ROOM // 8) == 8
    assert paced(1, 0.001, nbytes=10 * ROOM) == 1


class Spoiled:
    """Workers one of which sends something that is not a number."""

    def agree(self, numbers: Any) -> None:
        numbers[:] = float("nan")


def test_times_that_are_no_numbers_end_no_worker() -> None:
    pace = Pace()
    for _ in range(3):
        pace.agree(1, 0.01, 1, Spoiled())  # type: ignore[arg-type]
        assert pace.rounds >= 1
