"""The plug-in in a real JupyterLab: an hour's history, many runs, silence, and a busy kernel.

python -m benchmarks.front_end.panel [--quick]
"""

from __future__ import annotations

from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from tests.browser.lab import Lab, View, execute, open_notebook, opened_page, started

from ..lib.harness import Row, program
from .browser import FRAMES
from .notebook import CONNECT, DATA, TRAIN
from .view import EXECUTORS, HOUR

RUNS = 10

SETUP = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import os, time
os.environ.pop("TOS_NONINTERACTIVE", None)
from benchmarks.front_end.view import Load, begin, milestones
from tests.unit.widgets.support import FakeRun
from tos_notebook.telemetry.bus import EventBus
from tos_notebook.training import factory
%load_ext tos_notebook
runs, models = [], []
def make(number):
    run = FakeRun()
    run.run_id, run.number = f"run-{{number}}", number
    for watch in factory.watchers:
        watch(run)
    runs.append(run)
    return run.sinks[-1]
"""
HISTORY = """
model, began = make(1), time.time() - 3600
for event in begin(began, "run-1"):
    model(event)
for _, event in zip(range({events}), milestones(began)):
    model(event)
runs[0].active = False
"""
LOAD = """
for number in range(2, {runs} + 2):
    bus = EventBus([make(number)])
    bus.__enter__()
    load = Load(600, bus.publish, rate=1, name=f"run-{{number}}")
    load.thread.daemon = True
    load.thread.start()
"""
BUSY = "import time; time.sleep(30)"
DRAWN = """() => {
    const tab = document.querySelector('.tos-lab-run-tab .tos-run');
    return tab && Number(tab.dataset.milestones) > 0
        && tab.querySelector('[data-tos="loss-chart"] canvas')
        && tab.querySelectorAll('[data-tos="workers"] tbody tr').length > 1;
}"""
RUN_ALL = "() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }"
"""Not awaited: it would end with the last cell."""


class Wire:
    """What goes over the page's websockets to kernels, and when."""

    def __init__(self, page: Any) -> None:
        self.sent: list[tuple[float, bytes]] = []
        self.received: list[tuple[float, bytes]] = []
        page.on("websocket", self._follow)

    def _follow(self, socket: Any) -> None:
        if "channels" in socket.url:
            socket.on("framesent", lambda frame: self._note(self.sent, frame))
            socket.on("framereceived", lambda frame: self._note(self.received, frame))

    @staticmethod
    def _note(where: list[tuple[float, bytes]], frame: Any) -> None:
        where.append((perf_counter(), frame if isinstance(frame, bytes) else frame.encode()))

    def clear(self) -> None:
        """Forget what there was."""
        self.sent.clear()
        self.received.clear()

    def answers(self) -> list[float]:
        """Return the seconds from each command to its answer."""
        asked = [time for time, frame in self.sent if b'"command":' in frame]
        answered = [time for time, frame in self.received if b'"answer"' in frame]
        return [after - before for before, after in zip(asked, answered, strict=True)]


def opening(page: Any, lab: Lab, quick: bool) -> list[Row]:
    """Open a run with a long history in a tab; listen when nothing happens."""
    events = HOUR // 20 if quick else HOUR
    wire = Wire(page)
    open_notebook(page, lab, "history", SETUP, HISTORY.format(events=events))
    execute(page, "notebook:run-all-cells")
    page.locator(".tos-lab-status").get_by_text("run 1").wait_for()
    found = []
    for _ in range(3 if quick else 5):
        began = perf_counter()
        execute(page, "tos-notebook:open-panel")
        execute(page, "tos-notebook:open-run")
        page.wait_for_function(DRAWN)
        found.append(perf_counter() - began)
        execute(page, "application:close")
        page.wait_for_selector(".tos-lab-run-tab", state="detached")
        # So that the notebook, and its kernel, are in front again.
        page.locator(".jp-Notebook .jp-Cell").first.click()
    page.wait_for_timeout(2000)
    wire.clear()
    seconds = 5 if quick else 30
    page.wait_for_timeout(seconds * 1000)
    length = "three minutes" if quick else "an hour"
    return [
        Row(
            f"panel and tab of a run with {length} of history, worst",
            max(found),
            "s",
            "< 1",
            {"median": f"{median(found):.2f} s"},
            len(found),
        ),
        Row(
            f"messages in {seconds} s, panel open, nothing happens",
            len(wire.sent) + len(wire.received),
            "",
            "<= 0",
        ),
    ]


def crowd(page: Any, lab: Lab, seconds: float) -> list[Row]:
    """Show ten runs at once, then hide them."""
    wire = Wire(page)
    open_notebook(page, lab, "crowd", SETUP, LOAD.format(runs=RUNS))
    execute(page, "notebook:run-all-cells")
    execute(page, "tos-notebook:open-panel")
    page.locator(".tos-lab-status").get_by_text(f"run {RUNS + 1} ").wait_for()
    execute(page, "tos-notebook:open-run")
    page.wait_for_function(DRAWN)
    wire.clear()
    times = page.evaluate(FRAMES, seconds)
    seen = len(wire.received) / seconds
    gaps = [after - before for before, after in pairwise(times)]
    # The file browser takes the panel's place, a launcher the tab's.
    execute(page, "filebrowser:activate")
    execute(page, "launcher:create")
    page.wait_for_timeout(1000)
    wire.clear()
    page.wait_for_timeout(seconds * 1000)
    return [
        Row(
            f"frames, {RUNS} runs of {EXECUTORS} executors in panel and a tab",
            len(gaps) / (times[-1] - times[0]) * 1e3,
            "1/s",
            ">= 30",
            {"longest between two": f"{max(gaps):.0f} ms", "messages": f"{seen:.1f}/s"},
        ),
        Row(
            "messages, panel and tab hidden",
            len(wire.received) / seconds,
            "1/s",
            f"<= {seen / 2:.1f}",
            {"when seen": f"{seen:.1f}/s"},
        ),
    ]


def control(page: Any, lab: Lab, times: int) -> Row:
    """Pause and unpause by the panel's button while the kernel is in a cell of 30 s."""
    wire = Wire(page)
    open_notebook(page, lab, "busy", DATA, CONNECT, TRAIN, BUSY)
    page.evaluate(RUN_ALL)
    View(page).reaches(20)
    page.locator(".jp-Cell").last.get_by_text("[*]").wait_for()
    execute(page, "tos-notebook:open-panel")
    panel = page.locator("#tos-panel")
    wire.clear()
    for n in range(times):
        panel.get_by_role("button", name="Unpause" if n % 2 else "Pause").click()
        panel.get_by_text("running" if n % 2 else "paused").wait_for()
    busy = page.locator(".jp-Cell").last.get_by_text("[*]").count()
    found = wire.answers()
    assert busy, "The cell ended too early to say anything."
    return Row(
        f"control answered in a 30 s cell, ipykernel {version('ipykernel')}, worst of {times}",
        1e3 * max(found),
        "ms",
        "<= 200",
        {"median": f"{1e3 * median(found):.0f} ms"},
    )


def run(quick: bool) -> list[Row]:
    """Look at one run, at many, and at a busy kernel."""
    seconds = 5.0 if quick else 20.0
    with started() as (lab, browser):
        with opened_page(browser, lab) as page:
            rows = opening(page, lab, quick)
        with opened_page(browser, lab) as page:
            rows += crowd(page, lab, seconds)
        with opened_page(browser, lab) as page:
            return [*rows, control(page, lab, 4 if quick else 10)]


if __name__ == "__main__":
    program(run, __doc__)
