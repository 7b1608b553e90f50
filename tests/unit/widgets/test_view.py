"""Views without a kernel: the test is at the other end of their comms."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from comm.base_comm import BaseComm

from tests.unit.telemetry.samples import milestone, started
from tests.unit.widgets.support import FakeRun, Front, mimebundle
from tos_notebook import widgets
from tos_notebook.errors import ConfigError
from tos_notebook.events import RunFinished, StateChanged
from tos_notebook.widgets import RunModel, RunView
from tos_notebook.widgets.comms import STATIC, RunControl, RunStream
from tos_notebook.widgets.live_view import WIDGET
from tos_notebook.widgets.saved import RUN


class ByHand:
    """A pump that ticks when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.fed: list[Any] = []

    def add(self, fed: Any) -> None:
        if fed not in self.fed:
            self.fed.append(fed)

    def tick(self) -> None:
        self.now += 0.2
        self.fed = [one for one in self.fed if one.tick(self.now)]


class Line(BaseComm):  # type: ignore[misc]
    """A comm whose other end is here: keeps what a widget sends beside its state."""

    def __init__(self, **given: Any) -> None:
        self.messages: list[Any] = []
        self.front: Callable[[Any, Any], object] = lambda content, buffers: None
        super().__init__(**given)

    def publish_msg(
        self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any
    ) -> None:
        if msg_type == "comm_msg" and data["method"] == "custom":
            self.messages.append(data["content"])
            self.front(data["content"], buffers)

    def say(self, content: Any) -> None:
        """Send as a front end does."""
        data = {"method": "custom", "content": content}
        self.handle_msg({"content": {"data": data}, "buffers": []})


class Stage:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.model, self.pump = RunModel(), ByHand()
        self.run = FakeRun(self.model)
        self.model(started(self.pump.now))
        self.model(StateChanged(self.pump.now, "running"))
        self.views: list[RunView] = []

    def open(self, **given: Any) -> Line:
        """Open a comm, as a kernel does."""
        self.lines.append(Line(**given))
        return self.lines[-1]

    def view(self) -> tuple[RunView, Line, Front]:
        """Return a view, its control channel, and what its stream's front end shows."""
        self.lines.clear()
        view, front = RunView(self.run, self.pump), Front()  # type: ignore[arg-type]
        # Between them the stream's layout gets one.
        control, *_, stream = self.lines
        stream.front = front
        self.views.append(view)
        return view, control, front

    def end(self) -> None:
        self.model(RunFinished(self.pump.now, "finished"))
        self.run.active = False


def hello(view: str) -> dict[str, str]:
    return {"type": "hello", "view": view}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage()
    monkeypatch.setattr("ipywidgets.comm.create_comm", made.open)
    yield made
    for view in made.views:
        view.close()


def test_the_front_end_is_there_and_small() -> None:
    files = list(STATIC.iterdir())
    assert {path.name for path in files} >= {"run_view.js", "run_view.css"}
    assert sum(path.stat().st_size for path in files) < 200_000


def test_the_stream_names_its_control_channel() -> None:
    control = RunControl()
    stream = RunStream(control=control)
    assert stream.get_state()["control"] == f"IPY_MODEL_{control.model_id}"
    assert "_esm" in stream.get_state()
    stream.close()
    control.close()


def test_two_views_of_one_run_work_side_by_side(stage: Stage) -> None:
    (_, first, one), (_, second, two) = stage.view(), stage.view()
    first.say(hello("a"))
    stage.pump.tick()
    second.say(hello("b"))
    stage.model(milestone(stage.pump.now))
    stage.pump.tick()
    assert one.kinds == ["snapshot", "delta"]
    assert two.kinds == ["snapshot"]
    stage.model(milestone(stage.pump.now))
    stage.pump.tick()
    assert one.state["totals"] == two.state["totals"]


def test_a_command_is_answered_on_the_control_channel_alone(stage: Stage) -> None:
    _, control, stream = stage.view()
    control.say({"type": "command", "id": 1, "command": "pause", "arguments": {}})
    assert stage.run.told == [("pause",)]
    assert [answer["ok"] for answer in control.messages] == [True]
    assert stream.messages == []


@pytest.mark.parametrize("content", [None, 3, [], {}, {"type": "bye"}, {"type": ["hello"]}])
def test_what_is_no_message_is_passed_over(
    stage: Stage, content: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, control, stream = stage.view()
    control.say(content)
    assert "Expected hello or a command" in caplog.text
    assert (stage.run.told, stream.messages, control.messages) == ([], [], [])


def test_a_live_view_names_its_run_for_front_ends_with_a_plug_in(stage: Stage) -> None:
    view, _, _ = stage.view()
    # A plug-in could not show what it is not told of.
    assert RUN not in mimebundle(view)
    stage.model.announced = True
    named = mimebundle(view)[RUN]
    assert (named["run"], named["number"], named["name"]) == (named["saved"]["run"]["id"], 1, None)
    stage.end()
    # It says what became of the run, so that a page without a kernel can show it.
    assert mimebundle(view)[RUN]["saved"]["run"]["state"] == "finished"


def test_a_cell_shows_it_live_and_in_the_end_still(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[dict[str, Any], str, bool]] = []

    class Handle:
        def update(self, data: dict[str, Any], raw: bool) -> None:
            shown.append((data, "updated", raw))

    def fake(data: dict[str, Any], raw: bool, display_id: str) -> Handle:
        shown.append((data, display_id, raw))
        return Handle()

    monkeypatch.setattr("IPython.display.display", fake)
    view, _, _ = stage.view()
    view.show()
    stage.pump.tick()
    assert [set(data) for data, _, _ in shown] == [{WIDGET, "text/html", "text/plain"}]
    stage.end()
    assert not view.wait(0)
    stage.pump.tick()
    assert view.wait(0)
    assert stage.pump.fed == []
    assert [set(data) for data, _, _ in shown[1:]] == [{"text/html", "text/plain"}]
    assert shown[1][1] == "updated"
    # Later, as a cell's last expression, there is nothing to steer and nothing to update.
    view._ipython_display_()
    assert set(shown[2][0]) == {"text/html", "text/plain"}


def test_a_page_that_is_reloaded_after_the_end_gets_the_last_state(stage: Stage) -> None:
    _, control, stream = stage.view()
    stage.end()
    stage.pump.tick()
    control.say(hello("late"))
    stage.pump.tick()
    assert stream.kinds == ["snapshot"]
    assert stream.state["run"]["state"] == "finished"
    assert stage.pump.fed == []


def test_an_error_is_in_the_view_within_one_tick(stage: Stage) -> None:
    _, control, stream = stage.view()
    control.say(hello("a"))
    stage.pump.tick()
    stage.model(RunFinished(stage.pump.now, "failed", "ValueError: no\n  File x"))
    stage.run.active = False
    stage.pump.tick()
    assert stream.state["run"]["error"]["message"] == "ValueError: no"
    assert stream.state["run"]["state"] == "failed"


def test_a_closed_view_is_fed_no_more(stage: Stage) -> None:
    view, control, stream = stage.view()
    control.say(hello("a"))
    view.close()
    view.close()
    stage.pump.tick()
    assert stage.pump.fed == []
    assert stream.messages == []
    assert view.wait(0)


@pytest.mark.usefixtures("only_own_garbage")
def test_a_view_does_not_keep_a_run_that_is_over(stage: Stage) -> None:
    view, _, _ = stage.view()
    stage.end()
    stage.pump.tick()
    run = weakref.ref(stage.run)
    del stage.run
    gc.collect()
    assert run() is None
    assert "finished" in mimebundle(view)["text/plain"]


def test_a_run_that_nobody_watched_has_no_view() -> None:
    with pytest.raises(ConfigError, match="%load_ext tos_notebook"):
        widgets.view(FakeRun(lambda event: None))  # type: ignore[arg-type]
