"""The afternoon's course as a student goes through it in JupyterLab: run, try, try again, solve.

Screenshots of each exercise go to the folder that TOS_SCREENSHOTS names, if it does.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.course import COURSE, ERRORS, FORGET, RAN, answer
from tests.browser.lab import Lab, open_notebook, ready, run_cells
from tests.workshop.looks import CALL
from tos_workshop import handouts
from tos_workshop.solutions import SOLUTIONS

AFTERNOON = ("00", "01a", "02", "03", "04", "05", "07", "10")
NOTEBOOKS = [next(COURSE.glob(f"{number}_*.ipynb")) for number in AFTERNOON]

PICTURES = """() => [...document.querySelectorAll('.jp-RenderedMarkdown img')]
    .every(one => one.complete && one.naturalWidth > 100)"""


def opened(page: Any, lab: Lab, path: Path) -> Any:
    """Open a notebook of the course, without its outputs; return it as it is saved."""
    for name in ("tos_workshop", "pictures"):
        shutil.copytree(COURSE / name, lab.folder / name, dirs_exist_ok=True)
    shutil.copy(path, lab.folder)
    page.goto(lab.notebook(path.stem))
    ready(page)
    page.evaluate(FORGET)
    return nbformat.read(path, as_version=4)


def solve(page: Any, notebook: Any, picture: Callable[[str], None]) -> None:
    """Give an unfinished answer to each exercise, then the right one, then ask for a solution."""
    for index, cell in enumerate(notebook.cells):
        call = CALL.search(cell.source) if cell.cell_type == "code" else None
        if call is None:
            continue
        answer(page, index, cell.source, "Not yet. ")
        picture(f"{call[1]}-not-yet")
        answer(page, index, f"{SOLUTIONS[call[1]]}\n\n{call[0]}", "Right. ")
        picture(f"{call[1]}-right")
        # A student who has solved it may see how others do.
        shown = SOLUTIONS[call[1]].splitlines()[0]
        answer(page, index, f'tos_workshop.solution("{call[1]}")', shown)


def test_a_student_tries_and_solves_an_exercise_and_then_sees_a_solution(
    page: Any, lab: Lab, picture: Callable[[str], None]
) -> None:
    """Without Spark, so that it is short."""
    shutil.copytree(COURSE / "tos_workshop", lab.folder / "tos_workshop", dirs_exist_ok=True)
    stale = 'tos_workshop.check("server.stale", staleness)'
    open_notebook(page, lab, "exercise", "import tos_workshop", f"staleness = None\n\n{stale}")
    run_cells(page, 0)
    asked = 'tos_workshop.solution("server.stale")'
    answer(page, 1, asked, "Try 3 more answers first")
    for wrong, hint in ((None, "Go through"), (2, "So many"), (4, "A's own")):
        answer(page, 1, f"staleness = {wrong}\n\n{stale}", f"Not yet. {hint}")
    picture("exercise-not-yet")
    answer(page, 1, asked, SOLUTIONS["server.stale"].splitlines()[0])
    answer(page, 1, f"{SOLUTIONS['server.stale']}\n\n{stale}", "Right. ")
    picture("exercise-right")


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_student_runs_a_notebook_and_solves_its_exercises(
    path: Path, page: Any, lab: Lab, picture: Callable[[str], None]
) -> None:
    notebook = opened(page, lab, path)
    last = len(notebook.cells) - 1
    run_cells(page, *range(last))
    page.wait_for_function(RAN, arg=last)
    assert page.evaluate(ERRORS) == []
    solve(page, notebook, picture)
    run_cells(page, last)
    page.wait_for_function(RAN, arg=last + 1)
    assert page.evaluate(ERRORS) == []


@pytest.mark.long
def test_the_pictures_of_the_course_are_shown(
    page: Any, lab: Lab, picture: Callable[[str], None]
) -> None:
    path = COURSE / "01a_one_gradient.ipynb"
    notebook = opened(page, lab, path)
    drawn = [i for i, cell in enumerate(notebook.cells) if re.search(r"!\[.+\]\(pic", cell.source)]
    assert len(drawn) == 3
    for index in drawn:
        page.evaluate("i => jupyterapp.shell.currentWidget.content.scrollToItem(i, 'start')", index)
        page.wait_for_function(PICTURES)
    picture("pictures")


@pytest.mark.long
@pytest.mark.parametrize(("name", "sheets"), [("slides", 10), ("cheat_sheet", 1)])
def test_slides_and_cheat_sheet_fit_their_sheets_of_paper(
    name: str, sheets: int, page: Any, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    text = handouts.slides() if name == "slides" else handouts.sheet()
    path.write_text(text, encoding="utf-8")
    page.goto(path.as_uri())
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == sheets
