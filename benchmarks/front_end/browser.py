"""The live view in a real JupyterLab: a reload in mid-run, and frames under a heavy feed.

python -m benchmarks.front_end.browser [--quick]
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from tests.browser.lab import READY, Lab, View, execute, open_notebook, opened_page, started

from ..lib.harness import Row, program
from .notebook import CONNECT, DATA, TRAIN
from .view import EXECUTORS, RATE

FEED = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import os
os.environ.pop("TOS_NONINTERACTIVE", None)
from benchmarks.front_end.view import Load
from tests.unit.widgets.support import FakeRun
from tos_notebook.telemetry.bus import EventBus
from tos_notebook.widgets import RunModel, RunView
model = RunModel()
run = FakeRun(model)
bus = EventBus([model])
bus.__enter__()
load = Load(600, bus.publish)
load.thread.daemon = True
load.thread.start()
view = RunView(run)
view.show()
"""
FRAMES = """async seconds => {
    const times = [];
    const end = performance.now() + seconds * 1000;
    await new Promise(done => {
        const frame = now => {
            times.push(now);
            if (now < end) requestAnimationFrame(frame); else done();
        };
        requestAnimationFrame(frame);
    });
    return times;
}"""
"""The times of the frames that the browser draws."""

BACK = """n => {
    const root = document.querySelector('[data-milestones]');
    // What nobody sees is not drawn.
    root?.scrollIntoView();
    return root && Number(root.dataset.milestones) >= n
        && !root.querySelector('.tos-body').hidden
        && root.querySelector('[data-tos="loss-chart"] canvas')
        && root.querySelector('[data-tos="workers"] tbody tr')
        && !root.querySelector('[data-tos="pause"]').disabled
        && root.dataset.milestones;
}"""
"""The milestones that a view shows which is back."""

MOVED = "seen => document.querySelector('[data-milestones]')?.dataset.milestones !== seen"


class Reload(NamedTuple):
    """Seconds that a reload takes.

    Parameters
    ----------
    whole : float
        Until curve, table and controls are back, as the page before had them or newer.
    shown : float
        The same since JupyterLab shows the notebook's cells.
    moved : float
        Until the kernel's news are shown, since JupyterLab shows the notebook's cells.
    """

    whole: float
    shown: float
    moved: float


def reload(page: Any, view: View) -> Reload:
    """Reload the page in mid-run."""
    execute(page, "docmanager:save")
    seen = view.milestones
    began = perf_counter()
    page.reload(wait_until="commit")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    shown = perf_counter()
    back = page.wait_for_function(BACK, arg=seen).json_value()
    end = perf_counter()
    page.wait_for_function(MOVED, arg=back)
    return Reload(end - began, end - shown, perf_counter() - shown)


def reloads(page: Any, lab: Lab, count: int) -> list[Row]:
    """Reload a page whose run trains."""
    open_notebook(page, lab, "training", DATA, CONNECT, TRAIN)
    execute(page, "notebook:run-all-cells")
    view = View(page)
    view.reaches(20)
    found = [reload(page, view) for _ in range(count)]
    # JupyterLab would complain of what it has just asked a kernel that ends.
    page.evaluate(READY)
    whole = f"{median(one.whole for one in found):.2f} s"
    return [
        _worst("view back", [one.shown for one in found], {"JupyterLab included, median": whole}),
        _worst("and moving again", [one.moved for one in found], {}),
    ]


def _worst(what: str, seconds: list[float], parts: dict[str, str]) -> Row:
    found = {
        "within 2 s": f"{sum(one <= 2 for one in seconds)} of {len(seconds)}",
        "median": f"{median(seconds):.2f} s",
    }
    return Row(
        f"reload: {what} after the notebook's cells, worst",
        max(seconds),
        "s",
        "<= 2",
        found | parts,
        len(seconds),
    )


def frames(page: Any, lab: Lab, seconds: float) -> Row:
    """Feed a view and count what the browser draws."""
    open_notebook(page, lab, "feed", FEED)
    execute(page, "notebook:run-all-cells")
    View(page).reaches(1000)
    times = page.evaluate(FRAMES, seconds)
    gaps = [after - before for before, after in pairwise(times)]
    parts = {"longest between two": f"{max(gaps):.0f} ms"}
    name = f"frames at {EXECUTORS} executors x {RATE} milestones/s"
    return Row(name, len(gaps) / (times[-1] - times[0]) * 1e3, "1/s", ">= 30", parts)


def run(quick: bool) -> list[Row]:
    """Look at a run, and at a heavy feed."""
    with started() as (lab, browser):
        with opened_page(browser, lab) as page:
            rows = [frames(page, lab, 5 if quick else 20)]
        with opened_page(browser, lab) as page:
            return [*rows, *reloads(page, lab, 2 if quick else 36)]


if __name__ == "__main__":
    program(run, __doc__)
