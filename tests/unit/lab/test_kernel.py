"""The comm targets in a real kernel, with a client in the place of a page."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.front_end import Client, started_kernel

ROOT = Path(__file__).parents[3]

SETUP = """
import threading, time
from tests.unit.telemetry.samples import milestone, started
from tests.unit.widgets.support import FakeRun
from tos_notebook.training import factory
from tos_notebook.events import StateChanged

class Run(FakeRun):
    def __init__(self):
        super().__init__()
        self.paused = threading.Event()
    def pause(self):
        super().pause()
        self.paused.set()

%load_ext tos_notebook
"""
START = """
run = Run()
for watch in factory.watchers:
    watch(run)
model = run.sinks[-1]
model(started(time.time()))
model(StateChanged(time.time(), "running"))
model(milestone(time.time()))
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Client]:
    with started_kernel(ROOT) as made:
        made.run(SETUP)
        yield made


class PageSession:
    """What a page says on its comms, over a subshell of its own."""

    def __init__(self, kernel: Client, name: str) -> None:
        self.kernel = kernel
        self.control, self.stream = uuid.uuid4().hex, uuid.uuid4().hex
        self.shell = kernel.subshell()
        kernel.open_comm(self.control, "tos.control", {"page": name}, self.shell)
        kernel.open_comm(self.stream, "tos.stream", {"page": name}, self.shell)

    def says(self, **content: Any) -> None:
        self.kernel.say(self.control, content, self.shell)

    def hears(self, comm: str, kind: str, **fields: Any) -> dict[str, Any]:
        wanted = fields | {"type": kind}
        found = self.kernel.until(
            lambda m: (
                m["msg_type"] == "comm_msg"
                and m["content"]["comm_id"] == comm
                and wanted.items() <= m["content"]["data"].items()
            )
        )
        data: dict[str, Any] = found["content"]["data"]
        return data


def test_loading_the_extension_is_announced(kernel: Client) -> None:
    opened = kernel.until(
        lambda m: m["msg_type"] == "comm_open" and m["content"]["target_name"] == "tos.kernel"
    )
    assert opened["content"]["data"]["version"]


def test_a_page_is_served_while_a_cell_runs(kernel: Client) -> None:
    kernel.run(START)
    busy = kernel.start("assert run.paused.wait(30)")
    kernel.until(lambda m: m["parent_header"].get("msg_id") == busy)
    page = PageSession(kernel, "busy")
    overview = page.hears(page.stream, "overview", whole=True)
    assert [row["id"] for row in overview["runs"]] == ["r"]
    page.says(type="watch", view="v", run="run-1")
    snapshot = page.hears(page.stream, "snapshot", view="v")
    assert snapshot["state"]["totals"]["milestones"] == 1
    # The cell ends only once the command has come through.
    page.says(type="command", id=1, run="run-1", command="pause")
    assert page.hears(page.control, "answer", id=1)["ok"]
    kernel.idle(busy)
    kernel.run(
        "assert run.paused.is_set(); run.active = False; model.refused(time.time(), 'x', 'y')"
    )


def test_a_page_that_closes_its_comms_leaves_nothing(kernel: Client) -> None:
    page = PageSession(kernel, "closing")
    page.hears(page.stream, "overview", whole=True)
    kernel.close_comm(page.control, page.shell)
    kernel.until(lambda m: m["msg_type"] == "comm_close" and m["content"]["comm_id"] == page.stream)
    kernel.run("from comm import get_comm_manager as m")
    kernel.run(f"assert not {{'{page.control}', '{page.stream}'}} & m().comms.keys()")


def test_a_front_end_that_refuses_the_announcement_hides_it_from_nobody(kernel: Client) -> None:
    kernel.run("from comm import get_comm_manager as m")
    named = "[c for c in m().comms.values() if c.target_name == 'tos.kernel']"
    kernel.run(f"assert len({named}) == 1; first = {named}[0].comm_id; print(first)")
    opened = kernel.until(
        lambda m: m["msg_type"] == "comm_open" and m["content"]["target_name"] == "tos.kernel"
    )
    kernel.close_comm(opened["content"]["comm_id"])
    kernel.run(f"assert len({named}) == 1; assert {named}[0].comm_id != first")


def test_unloading_the_extension_sends_pages_away(kernel: Client) -> None:
    page = PageSession(kernel, "last")
    page.hears(page.stream, "overview", whole=True)
    kernel.run("%unload_ext tos_notebook")
    for comm in (page.control, page.stream):
        kernel.until(
            lambda m, comm=comm: m["msg_type"] == "comm_close" and m["content"]["comm_id"] == comm  # type: ignore[misc]
        )
    kernel.run("%load_ext tos_notebook")


def test_where_nobody_looks_nothing_is_announced_but_it_can_be_found(kernel: Client) -> None:
    kernel.run("%unload_ext tos_notebook")
    kernel.run("import os; os.environ['TOS_NONINTERACTIVE'] = '1'")
    try:
        request = kernel.run("%load_ext tos_notebook")
        assert kernel.of(request, "comm_open") == []
        kernel.run("from comm import get_comm_manager as m")
        kernel.run("assert [c for c in m().comms.values() if c.target_name == 'tos.kernel']")
    finally:
        # As the other tests find it, in whatever order they run.
        kernel.run("del os.environ['TOS_NONINTERACTIVE']")
        kernel.run("%reload_ext tos_notebook")
