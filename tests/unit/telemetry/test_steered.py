"""What a run was told: when it was asked for, by whom, and since when it is in force."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.telemetry.samples import milestone, started
from tos_notebook.events import (
    CommandAccepted,
    CommandApplied,
    CommandLapsed,
    Event,
    RunFinished,
    RunResumed,
)
from tos_notebook.telemetry.history import History
from tos_notebook.telemetry.steered import MOST

STARTED = started(10.0)


def told(*events: Event) -> Any:
    history = History()
    for event in events:
        history(event)
    return history.steered()


def short(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["command"], row["state"], row["since"]) for row in rows]


def test_a_command_has_its_place_its_source_and_since_when_it_is_in_force() -> None:
    asked = CommandAccepted(12.0, "set", "sync=bsp", {"sync": "bsp"}, "%tos_set")
    events = (STARTED, milestone(11.0, epoch=2), asked, milestone(12.5, epoch=2))
    row = {
        "seconds": 2.0, "epoch": 3, "milestones": 1, "command": "set", "detail": "sync=bsp",
        "source": "%tos_set", "state": "asked", "since": None, "times": 1,
    }  # fmt: skip
    assert told(*events) == [row]
    applied = CommandApplied(12.75, "set", "sync=bsp")
    rows = told(*events, applied)
    assert rows == [{**row, "state": "in force", "since": 2.75}]
    for shown in (repr(rows), rows._repr_html_()):
        assert "%tos_set" in shown
        assert "2.75" in shown
    assert "None" not in repr(told(*events))


def test_a_pause_that_ends_before_all_wait_has_no_effect() -> None:
    rows = told(STARTED, CommandAccepted(11.0, "pause", ""), CommandAccepted(12.0, "unpause", ""))
    assert short(rows) == [("pause", "no effect", None), ("unpause", "in force", 2.0)]


def test_a_command_whose_place_another_one_took_says_why() -> None:
    rows = told(
        STARTED,
        CommandAccepted(11.0, "swap strategy", "allreduce"),
        CommandAccepted(12.0, "swap strategy", "ps"),
        CommandLapsed(12.0, "swap strategy", "allreduce: a later swap has taken its place"),
        CommandApplied(13.0, "swap strategy", "ps"),
    )
    assert short(rows) == [("swap strategy", "no effect", None), ("swap strategy", "in force", 3.0)]
    assert rows[0]["detail"] == "allreduce: a later swap has taken its place"


def test_what_the_run_does_by_itself_is_its_own() -> None:
    rows = told(STARTED, CommandApplied(12.0, "repartition", "2 partitions"))
    assert short(rows) == [("repartition", "in force", 2.0)]
    assert rows[0]["source"] == "the run"


def test_the_end_settles_what_is_open() -> None:
    rows = told(
        STARTED,
        CommandAccepted(11.0, "repartition", "4 partitions"),
        CommandAccepted(12.0, "stop", "enough"),
        RunFinished(13.0, "stopped"),
    )
    assert short(rows) == [("repartition", "no effect", None), ("stop", "in force", 3.0)]


def test_a_resumed_run_has_what_its_checkpoint_holds() -> None:
    rows = told(
        STARTED,
        CommandAccepted(11.0, "set", "sync=bsp"),
        CommandAccepted(11.5, "pause", ""),
        CommandAccepted(12.0, "repartition", "4 partitions"),
        RunResumed(100.0, 3, 5, 2, 1000),
    )
    assert short(rows) == [
        ("set", "in force", 2.0),
        ("pause", "no effect", None),
        ("repartition", "asked", None),
    ]


@pytest.mark.parametrize("source", ["learning_rate=", "callbacks="])
def test_a_schedule_is_one_record_however_long_it_sets_rates(source: str) -> None:
    events: list[Event] = [STARTED]
    for n in range(2 * MOST):
        change = {"learning_rate": str(n)}
        events.append(CommandAccepted(11.0 + n, "set", f"learning_rate={n}", change, source))
        events.append(CommandApplied(11.5 + n, "set", f"learning_rate={n}"))
    (row,) = told(*events, RunFinished(1e6, "finished"))
    assert (row["detail"], row["times"]) == (f"learning_rate={2 * MOST - 1}", 2 * MOST)
    assert (row["state"], row["seconds"], row["since"]) == ("in force", 1.0, 1.5)


def test_commands_are_a_data_frame_when_asked_and_so_are_the_first_of_them() -> None:
    rows = told(STARTED, *(CommandAccepted(11.0, "set", f"sync_interval={n}") for n in (1, 2)))
    frame = rows.to_pandas()
    assert list(frame.columns) == [*rows[0]]
    assert frame["detail"].tolist() == ["sync_interval=1", "sync_interval=2"]
    assert len(rows.head(1).to_pandas()) == 1
    assert len(told(STARTED).to_pandas()) == 0


def test_the_latest_are_kept() -> None:
    events = [CommandAccepted(11.0 + n, "set", f"sync_interval={n}") for n in range(1, MOST + 9)]
    rows = told(STARTED, *events)
    assert len(rows) == MOST
    assert rows[-1]["detail"] == f"sync_interval={MOST + 8}"


def test_a_detail_is_one_readable_line() -> None:
    (row,) = told(STARTED, CommandAccepted(11.0, "swap combiner", "Mine(\n\x1b[2J" + "x" * 999))
    assert "\n" not in row["detail"]
    assert "\x1b" not in row["detail"]
    assert len(row["detail"]) <= 500
