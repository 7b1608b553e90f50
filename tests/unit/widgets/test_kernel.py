"""The view in a real kernel, with a client in the place of a front end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.support.front_end import Client, started_kernel

ROOT = Path(__file__).parents[3]
WIDGET = "application/vnd.jupyter.widget-view+json"

SETUP = """
import threading, time
import ipywidgets, traitlets
from tests.unit.telemetry.samples import joined, milestone, started
from tests.unit.widgets.support import FakeRun
from tos_notebook.events import RunFinished, StateChanged
from tos_notebook.widgets import RunModel, RunView

touched = set()
_set = traitlets.TraitType.set
def set_and_note(trait, instance, value):
    if isinstance(instance, ipywidgets.Widget):
        touched.add(threading.current_thread().name)
    _set(trait, instance, value)
traitlets.TraitType.set = set_and_note

class Run(FakeRun):
    def __init__(self, *sinks):
        super().__init__(*sinks)
        self.paused = threading.Event()
    def pause(self):
        super().pause()
        self.paused.set()
"""
SHOW = """
model = RunModel()
run = Run(model)
began = time.time()
for event in (started(began), StateChanged(began, "running"), joined(began)):
    model(event)
model(milestone(began + 0.1))
view = RunView(run)
view.show()
"""
END = """
run.active = False
model(milestone(time.time(), loss=0.25))
model(RunFinished(time.time(), "finished"))
assert view.wait(10)
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Client]:
    with started_kernel(ROOT) as made:
        made.run(SETUP)
        yield made


@pytest.fixture
def shown(kernel: Client) -> tuple[str, str, str]:
    """The cell that shows a view, and the ids of its stream and its control comm."""
    kernel.seen.clear()
    request = kernel.run(SHOW)
    return request, *kernel.view(request)


def test_a_hello_is_followed_by_a_snapshot_and_deltas(
    kernel: Client, shown: tuple[str, str, str]
) -> None:
    _, stream, control = shown
    shell = kernel.subshell()
    kernel.send(control, {"type": "hello", "view": "a"}, shell)
    first = kernel.custom(stream, "snapshot")
    assert first["state"]["totals"]["milestones"] == 1
    kernel.run("model(milestone(time.time()))")
    following = kernel.custom(stream, "delta")
    assert following["seq"] == first["seq"] + 1
    kernel.run(END)


def test_a_command_is_acted_on_while_a_cell_runs(
    kernel: Client, shown: tuple[str, str, str]
) -> None:
    _, stream, control = shown
    shell = kernel.subshell()
    kernel.send(control, {"type": "hello", "view": "a"}, shell)
    kernel.custom(stream, "snapshot")
    # The cell ends only once the command has come through.
    busy = kernel.start("assert run.paused.wait(30)")
    kernel.until(lambda m: m["parent_header"].get("msg_id") == busy)
    kernel.send(control, {"type": "command", "id": 7, "command": "pause"}, shell)
    answer = kernel.custom(control, "answer")
    assert answer == {
        "type": "answer",
        "id": 7,
        "ok": True,
        "when": "milestone",
    }
    kernel.idle(busy)
    assert not kernel.of(busy, "error")
    kernel.run(END)


def test_a_cell_that_shows_a_view_and_waits_does_not_keep_it_from_moving(kernel: Client) -> None:
    kernel.seen.clear()
    busy = kernel.start(SHOW + "assert run.paused.wait(30)")
    kernel.until(lambda m: m["msg_type"] == "display_data")
    stream, control = kernel.view(busy)
    # Two front ends one after the other, as with a reload of the page: two subshells.
    for shell in (kernel.subshell(), kernel.subshell()):
        kernel.send(control, {"type": "hello", "view": "a"}, shell)
        seen = kernel.custom(stream, "snapshot")
        kernel.send(control, {"type": "command", "id": 1, "command": "nonsense"}, shell)
        assert not kernel.custom(control, "answer")["ok"]
        kernel.seen.clear()
    assert seen["state"]["run"]["state"] == "running"
    kernel.send(control, {"type": "command", "id": 2, "command": "pause"}, shell)
    assert kernel.custom(control, "answer")["ok"]
    kernel.idle(busy)
    assert not kernel.of(busy, "error")
    kernel.run(END)


def test_the_end_replaces_the_view_in_its_cell_by_a_still_picture(
    kernel: Client, shown: tuple[str, str, str]
) -> None:
    request, _, _ = shown
    live = kernel.of(request, "display_data")[0]
    assert {WIDGET, "text/html", "text/plain"} <= set(live["content"]["data"])
    kernel.run("1 + 1")
    kernel.run(END)
    updates = [m for m in kernel.seen if m["msg_type"] == "update_display_data"]
    assert [m["content"]["transient"] for m in updates] == [live["content"]["transient"]]
    assert updates[0]["parent_header"]["msg_id"] == request
    output = nbformat.v4.new_output("display_data", data=updates[0]["content"]["data"])
    cell = nbformat.v4.new_code_cell(outputs=[output])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbformat.validate(notebook)
    assert WIDGET not in output.data
    assert '<img src="data:image/svg+xml' in output.data["text/html"]
    assert "finished" in output.data["text/html"]
    assert len(nbformat.writes(notebook)) < 100_000


def test_only_the_main_thread_touches_traits(kernel: Client, shown: tuple[str, str, str]) -> None:
    _, stream, control = shown
    shell = kernel.subshell()
    kernel.send(control, {"type": "hello", "view": "a"}, shell)
    kernel.custom(stream, "snapshot")
    kernel.send(control, {"type": "command", "id": 1, "command": "pause"}, shell)
    kernel.custom(control, "answer")
    kernel.run(END)
    request = kernel.run("print(sorted(touched))")
    assert kernel.of(request, "stream")[0]["content"]["text"] == "['MainThread']\n"


def test_threads_end_with_the_run(kernel: Client, shown: tuple[str, str, str]) -> None:
    kernel.run(END)
    kernel.run(
        "threads = [t for t in threading.enumerate() if t.name.startswith('tos-')]\n"
        "for thread in threads: thread.join(10)\n"
        "assert not any(thread.is_alive() for thread in threads)"
    )
