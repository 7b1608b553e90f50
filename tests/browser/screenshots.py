"""Take the screenshots of docs/tutorial/what-you-see.md in a real JupyterLab.

    python -m tests.browser.screenshots [FOLDER]

writes them into a folder, ``docs/tutorial/pictures`` by default. Needs Chromium and Pillow, and
takes about three minutes.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from PIL import Image

from tests.browser.course import COURSE, ERRORS, FORGET, RAN, answer
from tests.browser.lab import Lab, View, execute, opened_page, ready, run_cells, started
from tests.browser.test_first_notebook import STEERED
from tests.docs.pages import DOCS

SIZE = {"width": 1100, "height": 860}
COLORS = 64
TO = "([i, where]) => jupyterapp.shell.currentWidget.content.scrollToItem(i, where)"
CHECK = 'tos_workshop.check("first_steps.milestones", milestones)'

Take = Callable[[str], None]


class Course:
    """A notebook of the course in JupyterLab.

    Parameters
    ----------
    page : Page
    lab : Lab
    number : str
        With which its name begins.
    """

    def __init__(self, page: Any, lab: Lab, number: str) -> None:
        path = next(COURSE.glob(f"{number}_*.ipynb"))
        self.cells = nbformat.read(path, as_version=4).cells
        self._page = page
        page.goto(lab.notebook(path.stem))
        ready(page)

    def index(self, text: str) -> int:
        """Return the place of the first cell that has a text."""
        return next(i for i, cell in enumerate(self.cells) if text in cell.source)

    def run(self, end: int, begin: int = 0) -> None:
        """Run cells, without the last one, and wait for them."""
        run_cells(self._page, *range(begin, end))
        self._page.wait_for_function(RAN, arg=end)
        assert self._page.evaluate(ERRORS) == []

    def show(self, index: int, where: str = "start") -> None:
        """Scroll to a cell, and let its pictures be drawn."""
        # Twice: a notebook in windows knows the heights of cells once it has drawn them.
        for _ in range(2):
            self._page.evaluate(TO, [index, where])
            self._page.wait_for_timeout(1000)


def first_steps(page: Any, lab: Lab, take: Take) -> None:
    """Train, steer, compare, and try an exercise, in the first notebook."""
    course = Course(page, lab, "00")
    page.evaluate(FORGET)
    long_one = course.index(STEERED)
    course.run(long_one)
    course.show(course.index("## How good is it?"), "end")
    take("trained")
    run_cells(page, long_one)
    view = View(page, f'[data-windowed-list-index="{long_one}"]')
    course.show(long_one)
    view.reaches(200)
    page.get_by_role("button", name="Show the runs on Spark").click()
    course.show(long_one)
    take("training")
    execute(page, "application:toggle-left-area")
    view.press("pause")
    view.becomes("paused")
    view.steer(learning_rate="0.05")
    view.says("applies at")
    course.show(long_one)
    take("steered")
    view.press("unpause")
    exercise = course.index(CHECK)
    course.run(exercise, begin=long_one + 1)
    course.show(course.index('print("times less traffic:"'), "end")
    take("compared")
    answer(page, exercise, f"import tos_workshop\n\nmilestones = 18\n\n{CHECK}", "Not yet. ")
    course.show(exercise, "center")
    take("not-yet")
    answer(page, exercise, f"import tos_workshop\n\nmilestones = 36\n\n{CHECK}", "Right. ")
    course.show(exercise, "center")
    take("right")


def one_gradient(page: Any, lab: Lab, take: Take) -> None:
    """Look at a picture of a notebook, and at the table that it fills, as they are saved."""
    course = Course(page, lab, "01a")
    execute(page, "application:toggle-left-area")
    course.show(course.index("pictures/data-and-model.svg"))
    take("pictures")
    course.show(course.index('"4b. server, asp"'))
    take("four-ways")


def failures(page: Any, lab: Lab, take: Take) -> None:
    """Kill a worker, and count."""
    course = Course(page, lab, "04")
    page.evaluate(FORGET)
    execute(page, "application:toggle-left-area")
    end = course.index('print("attempts lost:"')
    course.run(end + 1)
    course.show(end, "end")
    take("killed")


def race(page: Any, lab: Lab, take: Take) -> None:
    """Let combiners race."""
    course = Course(page, lab, "10")
    page.evaluate(FORGET)
    execute(page, "application:toggle-left-area")
    end = course.index('race(mine, "median")') + 1
    course.run(end)
    course.show(end - 1, "end")
    take("race")


def main(folder: Path) -> None:
    """Write the screenshots."""
    folder.mkdir(parents=True, exist_ok=True)
    with started() as (lab, browser):
        shutil.copytree(COURSE, lab.folder, dirs_exist_ok=True)
        for visit in (first_steps, one_gradient, failures, race):
            with opened_page(browser, lab) as page:
                page.set_viewport_size(SIZE)

                def take(name: str, page: Any = page) -> None:
                    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                    small = picture.quantize(COLORS, dither=Image.Dither.NONE)
                    small.save(folder / f"{name}.png", optimize=True)

                visit(page, lab, take)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "tutorial/pictures")
