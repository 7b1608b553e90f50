"""The view of a TensorFlow cluster, and its picture, without a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clusters import FakeCluster, node
from tests.unit.widgets.support import mimebundle
from tests.unit.widgets.test_view import ByHand, Line
from tos_notebook.errors import WorkerError
from tos_notebook.widgets import ClusterPicture, ClusterView
from tos_notebook.widgets.cluster_picture import bundle, news
from tos_notebook.widgets.cluster_view import CLUSTER, HEARTBEAT
from tos_notebook.widgets.live_view import WIDGET


class Stage:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.pump, self.run = ByHand(), FakeCluster()
        self.view: Any = None

    def open(self, **given: Any) -> Line:
        self.lines.append(Line(**given))
        return self.lines[-1]

    def show(self) -> tuple[Line, Line]:
        """Return the control and the stream of a view."""
        self.view = ClusterView(self.run, self.pump)  # type: ignore[arg-type]
        return self.lines[0], self.lines[-1]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage()
    monkeypatch.setattr("ipywidgets.comm.create_comm", made.open)
    yield made
    if made.view is not None:
        made.view.close()


def test_a_view_is_sent_what_is_new_and_a_sign_of_life(stage: Stage) -> None:
    control, stream = stage.show()
    stage.pump.tick()
    stage.pump.tick()
    assert len(stream.messages) == 1
    stage.run.stands["nodes"] = [node(lines=["new"])]
    stage.pump.tick()
    assert stream.messages[-1]["state"]["nodes"][0]["lines"] == ["new"]
    control.say({"type": "hello", "view": "a"})
    stage.pump.tick()
    assert len(stream.messages) == 3
    stage.pump.now += HEARTBEAT
    stage.pump.tick()
    assert len(stream.messages) == 4
    assert stream.messages[-1]["active"]


def test_its_button_stops_the_cluster_and_nothing_else_is_obeyed(stage: Stage) -> None:
    control, _ = stage.show()
    control.say({"type": "command", "id": 4, "command": "explode"})
    assert control.messages[-1] == {
        "type": "answer",
        "id": 4,
        "ok": False,
        "text": "Expected stop, got 'explode'.",
    }
    control.say({"type": "command", "id": 5, "command": "stop"})
    assert control.messages[-1] == {"type": "answer", "id": 5, "ok": True, "when": "now"}
    assert stage.run.state == "stopping"


def test_the_end_is_sent_and_leaves_a_picture_behind(stage: Stage) -> None:
    _, stream = stage.show()
    assert WIDGET in mimebundle(stage.view)
    assert mimebundle(stage.view)[CLUSTER] == {"cluster": "cluster-1"}
    stage.run.end("failed", WorkerError("ValueError: mine"))
    stage.pump.tick()
    assert not stage.pump.fed
    assert stage.view.wait(0)
    last = stream.messages[-1]
    assert not last["active"]
    assert last["state"]["failure"]["message"].startswith("ValueError: mine")
    assert last["state"]["failure"]["frames"][0].startswith('  File "Cell In[3]"')
    assert not {WIDGET, CLUSTER} & set(mimebundle(stage.view))


def test_a_picture_shows_nodes_output_and_the_error_as_text() -> None:
    run = FakeCluster()
    run.stands["nodes"] = [node(lines=["<b>loss</b> 1"], rows=1200)]
    run.stands["feed"] = {
        "data": "x", "epoch": 1, "epochs": 2, "partitions": 4, "fed": 1, "over": False,
    }  # fmt: skip
    run.stands["notes"] = ["TensorBoard has ended with exit code 1: <no>"]
    run.end("failed", WorkerError("ValueError: mine"))
    found = bundle(news(run))  # type: ignore[arg-type]
    assert "&lt;b&gt;loss&lt;/b&gt; 1" in found["text/html"]
    assert 'role="alert"' in found["text/html"]
    assert "1,200" in found["text/html"]
    plain = found["text/plain"].splitlines()
    assert plain[0] == "TensorFlow cluster 1: failed, 1 node, 3 s"
    assert "ValueError: mine" in plain[1]
    assert "Cell In[3]" in plain[2]
    assert "    <b>loss</b> 1" in plain
    assert "  TensorBoard has ended with exit code 1: <no>" in plain
    assert "<p>TensorBoard has ended with exit code 1: &lt;no&gt;</p>" in found["text/html"]
    assert repr(ClusterPicture(run)) == found["text/plain"]  # type: ignore[arg-type]


def test_a_picture_of_an_active_cluster_says_as_of_when_it_is() -> None:
    found = bundle(news(FakeCluster()))  # type: ignore[arg-type]
    assert "while it was still active" in found["text/html"]
