"""Pages without a kernel: their comms are lists, and the pump ticks when it is told to."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from tests.support.clusters import FakeCluster
from tests.unit.telemetry.samples import joined, lost, milestone, started
from tests.unit.widgets.support import FakeRun, Front
from tos_notebook.cluster.summary import ClusterSummary
from tos_notebook.errors import TosError
from tos_notebook.events import RunFinished, StateChanged
from tos_notebook.lab.hub import CLUSTER, KEPT, PACE, SILENCE, PageSession, RunHub
from tos_notebook.steering.actions import ACTIONS
from tos_notebook.widgets.model import RunModel

SPARK = ClusterSummary("local[2]", "notebook", True, 1, 2, 2, None, {})


class Comm:
    """One end of a channel: what was sent on it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.buffers: list[Any] = []
        self.closed = False

    def send(self, data: dict[str, Any], buffers: Any = None) -> None:
        self.sent.append(data)
        self.buffers.append(buffers)

    def close(self) -> None:
        self.closed = True

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [content for content in self.sent if content["type"] == kind]


class Office:
    """A hub, its clock and its pages."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("tos_notebook.lab.hub.time.time", lambda: self.now)
        self.cell: str | None = "cell-1"
        self.cluster: ClusterSummary | None = SPARK
        self.looks = 0
        self.fed: list[Any] = []
        # Its thread holds a run that trains.
        self.runs: list[FakeRun] = []
        self.hub = RunHub(lambda: self.cell, self._look, self)  # type: ignore[arg-type]

    def _look(self) -> ClusterSummary | None:
        self.looks += 1
        return self.cluster

    def add(self, fed: Any) -> None:
        if fed not in self.fed:
            self.fed.append(fed)

    def tick(self, seconds: float = PACE) -> None:
        self.now += seconds
        self.fed = [one for one in self.fed if one.tick(self.now)]

    def page(self, name: str = "page") -> tuple[PageSession, Comm, Comm]:
        control, stream = Comm(), Comm()
        page = PageSession(name, control, self.hub)
        self.hub.enter(page)
        page.attach(stream)
        return page, control, stream

    def start(self, number: int = 1) -> tuple[FakeRun, RunModel]:
        run = FakeRun()
        run.run_id, run.number = f"run-{number}", number
        self.runs.append(run)
        self.hub.watch(run)  # type: ignore[arg-type]
        model = run.sinks[-1]
        assert isinstance(model, RunModel)
        event = started(self.now)
        object.__setattr__(event, "run_id", run.run_id)
        model(event)
        model(StateChanged(self.now, "running"))
        return run, model

    def end(self, run: FakeRun, model: RunModel, outcome: str = "finished") -> None:
        run.active = False
        model(RunFinished(self.now, outcome))


@pytest.fixture
def office(monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(monkeypatch)


def test_a_page_is_told_all_runs_and_then_what_changes(office: Office) -> None:
    office.start(1)
    _, two = office.start(2)
    _, _, stream = office.page()
    office.tick()
    first = stream.sent[-1]
    assert (first["type"], first["whole"], first["cluster"]) == ("overview", True, asdict(SPARK))
    assert [row["number"] for row in first["runs"]] == [1, 2]
    two(milestone(office.now))
    office.tick()
    second = stream.sent[-1]
    assert (second["seq"], second["whole"]) == (first["seq"] + 1, False)
    assert [row["number"] for row in second["runs"]] == [2]


def test_a_run_on_the_desk_is_one_that_a_plug_in_can_show(office: Office) -> None:
    _, model = office.start()
    assert model.announced


def test_a_row_says_where_a_run_stands(office: Office) -> None:
    _, model = office.start()
    for partition in (0, 1):
        model(joined(office.now, partition))
    model(milestone(office.now, loss=0.5))
    model(milestone(office.now, loss=0.25, partition=1, executor="2"))
    model(lost(office.now, partition=0))
    _, _, stream = office.page()
    office.tick()
    row = stream.sent[-1]["runs"][0]
    assert row["cell"] == "cell-1"
    assert (row["state"], row["epoch"], row["epochs"]) == ("running", 1, 5)
    assert row["executors"] == {"active": 2, "total": 2}
    assert row["spark"][-1] == 0.25
    assert [action["name"] for action in row["actions"]] == list(ACTIONS)
    assert row["error"] is None


def test_a_run_that_has_ended_can_be_hidden_from_the_panel_of_every_page(office: Office) -> None:
    run, model = office.start()
    page, _, stream = office.page()
    office.tick()
    page.receive({"type": "hide", "run": "run-1"})
    model(milestone(office.now))
    office.tick()
    assert stream.sent[-1]["runs"][0]["hidden"] is False
    office.end(run, model)
    office.tick()
    for name in ("run-1", "run-9"):
        page.receive({"type": "hide", "run": name})
    office.tick()
    assert [row["hidden"] for row in stream.sent[-1]["runs"]] == [True]
    _, _, other = office.page("other")
    office.tick()
    assert [row["hidden"] for row in other.sent[-1]["runs"]] == [True]


def test_nothing_new_costs_no_message_and_the_end_is_told(office: Office) -> None:
    run, model = office.start()
    _, _, stream = office.page()
    office.tick()
    told = len(stream.sent)
    for _ in range(5):
        office.tick()
    assert len(stream.sent) == told
    office.end(run, model)
    office.tick()
    assert stream.sent[-1]["runs"][0]["state"] == "finished"
    # A page that has nothing to wait for gets no ticks.
    assert office.fed == []


def test_a_new_run_is_told_at_once_as_its_view_is_about_to_be_shown(office: Office) -> None:
    office.start(1)
    page, _, stream = office.page()
    office.tick()
    page.receive({"type": "pace", "seconds": 5})
    office.start(2)
    office.tick(0.01)
    assert [row["number"] for row in stream.sent[-1]["runs"]] == [2]


def test_a_page_that_nobody_sees_is_told_less_often(office: Office) -> None:
    _, model = office.start()
    page, _, stream = office.page()
    office.tick()
    page.receive({"type": "pace", "seconds": 5})
    told = len(stream.sent)
    for _ in range(20):
        model(milestone(office.now))
        office.tick(0.5)
    assert len(stream.sent) - told <= 3


def test_a_view_gets_a_snapshot_and_deltas_until_it_is_closed(office: Office) -> None:
    _, model = office.start()
    page, control, stream = office.page()
    page.receive({"type": "watch", "view": "a", "run": "run-1"})
    page.receive({"type": "watch", "view": "b", "run": "run-1", "seconds": 5})
    for _ in range(10):
        model(milestone(office.now))
        office.tick(0.2)
    front = Front()
    own = [i for i, c in enumerate(stream.sent) if c.get("view") == "a"]
    for i in own:
        front({k: v for k, v in stream.sent[i].items() if k != "view"}, stream.buffers[i])
    assert front.kinds == ["snapshot"] + 9 * ["delta"]
    assert not front.gap
    assert front.state["totals"]["milestones"] == 10
    assert len([c for c in stream.sent if c.get("view") == "b"]) == 1
    page.receive({"type": "unwatch", "view": "a"})
    told = len([c for c in stream.sent if c.get("view") == "a"])
    model(milestone(office.now))
    office.tick()
    assert len([c for c in stream.sent if c.get("view") == "a"]) == told
    assert control.sent == []


def test_two_pages_see_the_same_run(office: Office) -> None:
    _, model = office.start()
    (one, _, first), (two, _, second) = office.page("one"), office.page("two")
    for page in (one, two):
        page.receive({"type": "watch", "view": "v", "run": "run-1"})
    model(milestone(office.now))
    office.tick()
    one.close()
    model(milestone(office.now))
    office.tick()
    assert [c["type"] for c in first.sent if "view" in c] == ["snapshot"]
    assert [c["type"] for c in second.sent if "view" in c] == ["snapshot", "delta"]


def test_a_run_that_is_resumed_takes_the_place_of_what_it_was(office: Office) -> None:
    """It keeps its id: views of it follow, and the panel lists it although it was taken out."""
    office.end(*office.start(1))
    office.end(*office.start(2))
    page, _, stream = office.page()
    page.receive({"type": "watch", "view": "a", "run": "run-1"})
    page.receive({"type": "hide", "run": "run-1"})
    office.tick()
    _, model = office.start(1)
    model(milestone(office.now))
    office.tick()
    told = [c for c in stream.sent if c.get("view") == "a"]
    assert [(c["type"], c["state"]["run"]["state"]) for c in told] == [
        ("snapshot", "finished"),
        ("snapshot", "running"),
    ]
    assert [row["hidden"] for row in stream.of("overview")[-1]["runs"]] == [False]
    assert list(office.hub.runs) == ["run-2", "run-1"]


def test_a_view_of_an_unknown_run_is_told_that_it_is_gone(office: Office) -> None:
    page, control, stream = office.page()
    page.receive({"type": "watch", "view": "a", "run": "run-9"})
    office.tick()
    assert control.sent == [{"type": "gone", "view": "a"}]
    assert not [c for c in stream.sent if "view" in c]


def test_a_command_is_answered_on_the_control_channel_alone(office: Office) -> None:
    run, _ = office.start()
    page, control, stream = office.page()
    page.receive({"type": "command", "id": 7, "run": "run-1", "command": "pause"})
    assert run.told == [("pause",)]
    assert [(a["type"], a["id"], a["ok"]) for a in control.sent] == [("answer", 7, True)]
    page.receive({"type": "command", "id": 8, "run": "run-9", "command": "pause"})
    assert control.sent[-1]["ok"] is False
    assert stream.of("answer") == []


def test_a_picture_is_what_a_saved_notebook_shows(office: Office) -> None:
    run, model = office.start()
    model(milestone(office.now))
    office.end(run, model)
    page, control, _ = office.page()
    page.receive({"type": "picture", "id": 1, "run": "run-1"})
    assert '<img src="data:image/svg+xml' in control.sent[-1]["bundle"]["text/html"]
    page.receive({"type": "picture", "id": 2, "run": "run-9"})
    assert control.sent[-1] | {"text": ""} == {"type": "answer", "id": 2, "ok": False, "text": ""}


def test_a_page_that_connects_anew_takes_its_own_place(office: Office) -> None:
    _, control, stream = office.page()
    _, _, other = office.page("another")
    again, _, _ = office.page()
    assert control.closed
    assert stream.closed
    assert not other.closed
    assert office.hub.find("page") is again


def test_a_page_that_went_without_a_word_is_given_up(office: Office) -> None:
    _, model = office.start()
    page, control, stream = office.page()
    for _ in range(int(SILENCE) + 5):
        model(milestone(office.now))
        office.tick()
    assert control.closed
    assert stream.closed
    assert office.hub.find("page") is None
    assert page.tick(office.now) is False


def test_a_page_that_speaks_now_and_then_is_kept(office: Office) -> None:
    _, model = office.start()
    page, control, _ = office.page()
    for second in range(2 * int(SILENCE)):
        model(milestone(office.now))
        office.tick()
        if second % 60 == 0:
            page.receive({"type": "here"})
    assert not control.closed


def test_an_idle_page_is_kept_however_long_it_is_silent(office: Office) -> None:
    _, control, _ = office.page()
    office.end(*office.start(0))
    office.tick()
    office.now += 100 * SILENCE
    _, model = office.start()
    office.tick()
    model(milestone(office.now))
    office.tick()
    assert not control.closed


def test_spark_is_looked_at_seldom_while_a_run_trains(office: Office) -> None:
    _, model = office.start()
    _, _, stream = office.page()
    office.tick()
    assert office.looks == 1
    office.cluster = None
    for _ in range(int(CLUSTER) + 1):
        model(milestone(office.now))
        office.tick()
    assert office.looks == 2
    assert stream.of("overview")[-1]["cluster"] is None


def test_runs_that_have_ended_are_kept_to_a_limit_and_active_ones_always(office: Office) -> None:
    first = office.start(0)
    for number in range(1, KEPT + 6):
        office.end(*office.start(number))
    office.start(99)
    names = list(office.hub.runs)
    assert names[0] == "run-0"
    assert names[-1] == "run-99"
    assert len(names) == KEPT + 2
    assert first[0].active


@pytest.mark.parametrize(
    "content", [None, 3, [], {}, {"type": "bye"}, {"type": ["hello"]}, {"type": "watch"}]
)
def test_what_is_no_request_harms_nobody(
    office: Office, content: Any, caplog: pytest.LogCaptureFixture
) -> None:
    page, control, _ = office.page()
    page.receive(content)
    assert "Expected a request" in caplog.text or control.of("gone")
    office.start()
    office.tick()
    page.receive({"type": "pace", "seconds": "fast"})
    page.receive({"type": "pace", "view": "none", "seconds": 1})
    page.receive({"type": "hello"})
    office.tick()
    assert not control.closed


def test_a_page_is_told_of_clusters_and_stops_them(office: Office) -> None:
    cluster = FakeCluster()
    office.hub.watch_cluster(cluster)  # type: ignore[arg-type]
    page, control, stream = office.page()
    office.tick()
    assert stream.sent[-1]["clusters"] == [
        {
            "id": "cluster-1", "number": 1, "state": "running", "active": True, "running": 2,
            "nodes": 2, "error": None, "cell": "cell-1",
        }
    ]  # fmt: skip
    page.receive({"type": "command", "id": 1, "cluster": "cluster-1", "command": "stop"})
    assert control.sent[-1] == {"type": "answer", "id": 1, "ok": True, "when": "now"}
    page.receive({"type": "command", "id": 2, "cluster": "gone", "command": "stop"})
    assert not control.sent[-1]["ok"]
    cluster.end("failed", TosError("ValueError: mine"))
    office.tick()
    office.tick()
    last = stream.sent[-1]["clusters"][0]
    assert (last["active"], last["error"]) == (False, "ValueError: mine")
    page.receive({"type": "picture", "id": 3, "cluster": "cluster-1"})
    assert "ValueError: mine" in control.sent[-1]["bundle"]["text/html"]
    page.receive({"type": "picture", "id": 4, "cluster": "gone"})
    assert control.sent[-1]["text"] == "This kernel no longer has such a cluster."
    assert not office.fed


def test_clusters_that_have_ended_are_forgotten_one_by_one(office: Office) -> None:
    for number in range(KEPT + 3):
        cluster = FakeCluster(number)
        cluster.end()
        office.hub.watch_cluster(cluster)  # type: ignore[arg-type]
    assert len(office.hub.clusters) == KEPT
