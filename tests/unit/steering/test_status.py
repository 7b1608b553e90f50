"""What a caller waits for: counted from the beginning of the wait, together or each."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from tos_notebook.errors import ConfigError
from tos_notebook.steering.links import LinkRate, LinkRates
from tos_notebook.steering.status import CheckpointStatus, Goal, Progress, RunStatus

BEGUN = Progress(3, 14, (10, 4), 1)


def goal_of(each: bool = False, **given: int) -> Goal:
    return Goal(dict.fromkeys(("milestones", "epochs", "workers")) | given, each, BEGUN)


def status(**changes: Any) -> RunStatus:
    known: dict[str, Any] = {
        "run": "run-1", "state": "running", "epoch": 7, "epochs": 12, "milestones": 1234,
        "samples": 123_400, "samples_per_second": 4321.9, "loss": 0.123456, "staleness": math.nan,
        "elapsed": 61.25,
    }  # fmt: skip
    return RunStatus(**known | changes)


def test_a_status_shows_what_is_known_in_a_line_for_each() -> None:
    assert repr(status()).splitlines() == [
        "status              run-1",
        "------------------  ---------------------------------",
        "state               running",
        "epoch               7 of 12",
        "milestones          1,234",
        "samples             123,400",
        "samples_per_second  4,322",
        "loss                0.1235 (of the latest milestones)",
        "elapsed             61.2",
    ]
    told = status(
        metrics={"accuracy": 0.98765}, validations=2, notes=("One went wrong.",), reason="by you",
        checkpoint=CheckpointStatus(), links=LinkRates((LinkRate(0, 1, 2e6),)),
        validations_left_out=3,
    )  # fmt: skip
    lines = dict(line.split(maxsplit=1) for line in repr(told).splitlines()[2:])
    assert lines["metrics"] == "accuracy 0.9877 (of the latest milestones)"
    assert (lines["validations"], lines["reason"]) == ("2 (3 left out)", "by you")
    assert lines["notes"] == "One went wrong."
    assert lines["checkpoint"] == "The run has no checkpoint yet."
    assert lines["links"] == "0 -> 1 2 MB/s"


def test_a_status_is_a_table_in_a_cell() -> None:
    page = str(status(notes=("<b>",))._repr_html_())
    assert page.startswith("<table>")
    assert ">7 of 12</td>" in page
    assert "&lt;b&gt;" in page


@pytest.mark.parametrize(
    ("given", "before", "after"),
    [
        ({"milestones": 6}, Progress(9, 19, (10, 9), 2), Progress(3, 20, (13, 7), 2)),
        (
            {"milestones": 6, "each": True},
            Progress(9, 39, (30, 9), 2),
            Progress(3, 26, (16, 10), 2),
        ),
        ({"epochs": 2}, Progress(4, 198, (99, 99), 2), Progress(5, 14, (10, 4), 2)),
        ({"workers": 2}, Progress(9, 103, (99, 4), 1), Progress(3, 14, (10, 4), 2)),
        # Of more or fewer partitions, together: what the others have trained counts on.
        ({"milestones": 6}, Progress(3, 19, (10,), 1), Progress(3, 20, (11,), 1)),
        # A repartition gives the run more partitions, or fewer.
        (
            {"milestones": 2, "each": True},
            Progress(3, 41, (20, 20, 1), 2),
            Progress(3, 20, (12, 6, 2), 2),
        ),
        ({"milestones": 2, "each": True}, Progress(3, 11, (11,), 2), Progress(3, 12, (12,), 2)),
    ],
)
def test_it_is_reached_when_that_much_more_is_trained(
    given: dict[str, Any], before: Progress, after: Progress
) -> None:
    goal = goal_of(**given)
    assert not goal.reached(BEGUN)
    assert not goal.reached(before)
    assert goal.reached(after)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "expected one of milestones=, epochs=, workers="),
        ({"milestones": 1, "epochs": 1}, "expected one of milestones=, epochs=, workers="),
        ({"epochs": 1, "each": True}, "each=True with milestones= only; got epochs=1, each=True"),
        ({"milestones": 0}, "milestones: expected"),
        ({"epochs": 0}, "epochs: expected"),
    ],
)
def test_what_makes_no_sense_is_said_at_once(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        goal_of(**given)


@pytest.mark.parametrize(
    ("resumed", "expected"),
    [
        (None, "The run has no checkpoint yet: the disk is full"),
        (7, "The run has no checkpoint since it continued from number 7: the disk is full"),
    ],
)
def test_a_run_without_a_new_checkpoint_names_the_one_that_it_continued_from(
    resumed: int | None, expected: str
) -> None:
    assert str(CheckpointStatus(error="the disk is full", resumed=resumed)) == expected


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (CheckpointStatus(), "The run has no checkpoint yet."),
        (CheckpointStatus(error="disk full"), "The run has no checkpoint yet: disk full"),
        (CheckpointStatus(3, 0.0), "The newest checkpoint is number 3, of 00:00:00."),
        (CheckpointStatus(3, 0.0, "full"), "The newest checkpoint is number 3, of 00:00:00: full"),
    ],
)
def test_a_checkpoint_says_in_words_what_is_saved(
    status: CheckpointStatus, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "localtime", time.gmtime)
    assert str(status) == text
