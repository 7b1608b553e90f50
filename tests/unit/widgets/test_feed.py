"""The protocol, with a clock that stands still unless it is moved."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.unit.telemetry.samples import joined, lost, milestone, started
from tests.unit.widgets.support import FACTS, Front
from tos_notebook.events import (
    CheckpointFailed,
    CommandAccepted,
    CommandApplied,
    RunFinished,
    StateChanged,
    Validated,
    WorkerFailed,
)
from tos_notebook.readable import is_readable
from tos_notebook.widgets import curves, workers
from tos_notebook.widgets.feed import HEARTBEAT, Feed
from tos_notebook.widgets.model import RunModel

TICK = 0.2


class Setting:
    """A model, a feed to each of some front ends, and the time."""

    def __init__(self, fronts: int = 1) -> None:
        self.model = RunModel()
        self.facts = FACTS.copy()
        self.fronts = [Front() for _ in range(fronts)]
        self.feeds = [Feed(self.model, self.facts.copy, front) for front in self.fronts]
        self.now = 0.0
        self.model(started(0.0))
        self.model(StateChanged(0.0, "running"))

    @property
    def front(self) -> Front:
        return self.fronts[0]

    def hello(self, number: int = 0) -> None:
        self.feeds[number].hello()
        self.tick()

    def tick(self, seconds: float = TICK, last: bool = False) -> None:
        self.now += seconds
        for feed in self.feeds:
            feed.tick(self.now, last)

    def train(self, count: int = 1, workers: int = 2, **changes: Any) -> None:
        for n in range(count):
            self.model(milestone(self.now + n * 0.03, partition=n % workers, **changes))


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_nothing_is_sent_before_somebody_listens(setting: Setting) -> None:
    setting.train()
    setting.tick()
    assert setting.front.messages == []


def test_a_hello_brings_all_that_there_is(setting: Setting) -> None:
    setting.model(joined())
    setting.train(4, metrics={"accuracy": 0.5})
    setting.model(Validated(1.0, 0, 400, {"loss": 0.25}))
    setting.hello()
    front = setting.front
    assert front.kinds == ["snapshot"]
    assert list(front.series) == [
        ("loss", "training"),
        ("accuracy", "training"),
        ("bytes per sample", "work"),
        ("staleness", "work"),
        ("loss", "validation"),
    ]
    found = front.series["loss", "validation"][:, 0].tolist()
    assert found == pytest.approx([1.0, 400.0, 0.4, 0.25])
    assert front.lanes.shape == (6, 4)
    assert front.state["totals"]["samples"] == 400
    assert front.state["totals"]["samples_total"] == 5000
    assert front.state["run"]["state"] == "running"
    assert front.state["run"]["actions"] == FACTS["actions"]
    assert [row["key"] for row in front.state["workers"]] == ["1/0", "1/1"]


def test_deltas_follow_without_a_gap_and_hold_the_news_only(setting: Setting) -> None:
    setting.train(2)
    setting.hello()
    setting.train(3)
    setting.tick()
    front = setting.front
    assert front.kinds == ["snapshot", "delta"]
    assert not front.gap
    state = front.messages[1]["state"]
    assert state["series"][0] == {"name": "loss", "split": "training", "length": 3}
    assert state["lanes"] == {"length": 3}
    assert not {"marks", "commands", "log"} & set(state)
    assert front.series["loss", "training"].shape == (4, 5)


def test_a_reader_of_deltas_knows_what_a_late_one_learns_at_once() -> None:
    setting = Setting(fronts=2)
    setting.hello(0)
    for _ in range(30):
        setting.train(7, metrics={"accuracy": 0.5})
        setting.model(Validated(setting.now, 0, 100, {"loss": 1.0}))
        setting.model(CommandAccepted(setting.now, "set", "x"))
        setting.model(CommandApplied(setting.now, "set", "x"))
        setting.model(lost(setting.now))
        setting.tick()
    setting.tick(HEARTBEAT)
    setting.hello(1)
    early, late = setting.fronts
    # News for both, and late enough for the table of workers.
    setting.train()
    setting.tick(HEARTBEAT)
    assert list(early.series) == list(late.series)
    for key, points in early.series.items():
        np.testing.assert_array_equal(points, late.series[key])
    np.testing.assert_array_equal(early.lanes, late.lanes)
    assert early.state == late.state


def test_a_second_view_does_not_take_the_feed_from_the_first() -> None:
    setting = Setting(fronts=2)
    setting.hello(0)
    setting.hello(1)
    setting.train()
    setting.tick()
    assert setting.fronts[0].kinds == ["snapshot", "delta"]
    assert setting.fronts[1].kinds == ["snapshot", "delta"]


def test_after_a_gap_a_hello_brings_a_snapshot(setting: Setting) -> None:
    setting.hello()
    setting.train()
    setting.tick()
    setting.hello()
    assert setting.front.kinds == ["snapshot", "delta", "snapshot"]
    assert [message["seq"] for message in setting.front.messages] == [1, 2, 3]


def test_nothing_new_is_a_heartbeat_now_and_then(setting: Setting) -> None:
    setting.hello()
    for _ in range(50):
        setting.tick()
    beats = len(setting.front.messages) - 1
    assert 50 * TICK / 2 <= beats <= 50 * TICK / HEARTBEAT
    assert setting.front.state["run"]["elapsed"] > 8


def test_a_change_of_settings_is_news(setting: Setting) -> None:
    setting.hello()
    setting.facts["sync_interval"] = 20
    setting.tick()
    assert setting.front.state["run"]["sync_interval"] == 20


def test_series_that_are_merged_anew_come_as_a_snapshot(setting: Setting) -> None:
    setting.hello()
    kinds = set()
    for _ in range(40):
        setting.train(100)
        setting.tick(3.0)
        kinds.add(setting.front.messages[-1]["type"])
        assert not setting.front.gap
    assert kinds == {"snapshot", "delta"}
    assert setting.front.series["loss", "training"].shape[1] <= 2000
    assert setting.front.series["loss", "training"][1, -1] == pytest.approx(400_000, rel=0.01)


def test_workers_that_are_forgotten_come_as_a_snapshot(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MAX_ROWS", 2)
    setting.model(joined(0.0, partition=0))
    setting.model(joined(0.0, partition=1))
    setting.train(2)
    setting.model(lost(0.1, partition=0))
    setting.hello()
    setting.model(joined(0.3, partition=2))
    setting.model(milestone(0.4, partition=2))
    setting.tick()
    front = setting.front
    assert front.kinds == ["snapshot", "snapshot"]
    assert [row["partition"] for row in front.state["workers"]] == [1, 2]
    # The forgotten worker's milestone and mark went with it.
    assert front.lanes[0].tolist() == [0, 1]
    assert front.state["marks"] == []


def test_a_burst_leaves_milestones_out_of_the_lanes_not_of_the_count(setting: Setting) -> None:
    setting.hello()
    setting.train(3 * curves.NEWS)
    setting.tick()
    assert setting.front.lanes.shape[1] == curves.NEWS
    assert setting.front.state["totals"]["milestones"] == 3 * curves.NEWS


def test_the_last_message_holds_all_that_was_held_back(setting: Setting) -> None:
    setting.hello()
    setting.train(2)
    setting.model(RunFinished(setting.now, "finished"))
    setting.tick(last=True)
    state = setting.front.messages[-1]["state"]
    assert state["run"]["state"] == "finished"
    assert {row["state"] for row in state["workers"]} == {"done"}


def test_messages_are_strict_json(setting: Setting) -> None:
    setting.model(joined())
    setting.train(3, loss=float("nan"))
    setting.hello()
    setting.train(3, loss=float("inf"))
    setting.tick()
    for message in setting.front.messages:
        json.dumps(message, allow_nan=False)
    assert setting.front.state["totals"]["loss"] is None


@pytest.mark.parametrize(
    "text", ["cannot read \udce9.csv", "\x1b[31mred\x00", "\u202e", "\u200f\u2028", "x" * 10**6]
)
def test_no_text_of_a_run_can_stop_its_view(setting: Setting, text: str) -> None:
    setting.hello()
    host = text[:200]
    setting.train(executor=host, host=host, metrics={text[:100]: 0.5})
    who = {"partition": 0, "attempt": 0, "executor": host, "host": host}
    failed = WorkerFailed(1.0, **who, message=text, frames=(text,), epoch=0, batches=(0, 1))
    setting.model(failed)
    setting.model(CheckpointFailed(1.0, text))
    setting.model(RunFinished(2.0, "failed", text))
    setting.tick(1.0)
    setting.tick(1.0, last=True)
    assert len(setting.front.kinds) >= 2
    for content in setting.front.messages:
        said = json.dumps(content, ensure_ascii=False).encode("utf-8")
        assert len(said) < 5 * 10**6
        assert is_readable(said.decode("utf-8"))
