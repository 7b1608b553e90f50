"""`tos_workshop.solution`: shown after three different answers, and each one is right."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import nbformat
import numpy as np
import pytest

import tos_notebook as tos
import tos_workshop
from tests.workshop import test_first_steps, test_modes, test_server, test_stragglers
from tests.workshop.looks import CALL, said
from tos_notebook.errors import ConfigError
from tos_workshop import solutions_page
from tos_workshop.exercise import exercise, expect
from tos_workshop.solutions import SOLUTIONS
from tos_workshop.tries import Tries

FOLDER = Path(solutions_page.COURSE)


class Run:
    history = test_first_steps.HISTORY


GIVEN = {
    "np": np,
    "tos": tos,
    "tos_workshop": tos_workshop,
    "first": Run,
    "history": test_server.HISTORY,
    "ssp": test_modes.run([0, 1, 5]),
    "count_all": lambda *rules: test_stragglers.ended(chaos_log=rules),
}
"""What exercises take from the cells above them."""


def asked() -> dict[str, str]:
    """Return the line that checks each exercise, from the notebooks."""
    cells = [cell for path in FOLDER.glob("*.ipynb") for cell in nbformat.read(path, 4).cells]
    found = [match for cell in cells for match in CALL.finditer(cell.source)]
    return {match[1]: match[0] for match in found}


CALLS = asked()


@pytest.mark.parametrize("name", CALLS)
def test_each_solution_is_right_in_the_place_of_the_attempt(name: str) -> None:
    heard = io.StringIO()
    with redirect_stdout(heard):
        exec(f"{SOLUTIONS[name]}\n{CALLS[name]}", dict(GIVEN))
    assert heard.getvalue().startswith("Right. "), heard.getvalue()


def test_there_is_one_for_each_exercise_and_no_other() -> None:
    assert set(SOLUTIONS) == set(CALLS)


def test_the_page_for_teachers_is_fresh() -> None:
    assert solutions_page.PAGE.read_text(encoding="utf-8") == solutions_page.text(), (
        "Run in the folder notebooks: python -m tos_workshop.solutions_page"
    )


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> str:
    """An exercise with a solution, in a kernel that has just started."""
    name = "server.stale"
    monkeypatch.setattr(tos_workshop, "_tries", Tries())
    return name


def shown(name: str) -> str:
    heard = io.StringIO()
    with redirect_stdout(heard):
        tos_workshop.solution(name)
    return heard.getvalue()


def test_it_is_shown_after_three_different_answers(own: str) -> None:
    assert shown(own).startswith("Try 3 more answers first")
    for answer in (2, 2, 4):
        said(own, answer)
    assert shown(own).startswith("Try 1 more answer first")
    said(own, 6)
    assert "staleness = 3" in shown(own)


def test_it_is_shown_once_the_exercise_is_solved(own: str) -> None:
    said(own, 3)
    assert "staleness = 3" in shown(own)


def test_functions_are_different_answers_if_their_code_is(own: str) -> None:
    for _ in range(5):
        said("server.recount", lambda history: None, None)
    assert shown("server.recount").startswith("Try 2 more answers")
    said("server.recount", lambda history: [1.0], None)
    assert shown("server.recount").startswith("Try 1 more answer")


def test_a_wrong_name_and_an_exercise_of_the_class_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected one of .*server\.stale"):
        tos_workshop.solution("server.nothing")

    @exercise("own.unsolved")
    def unsolved(made: object) -> str:
        expect(made, "No.")
        return "Yes."

    try:
        with pytest.raises(ConfigError, match=r"expected one of .*server\.stale"):
            tos_workshop.solution("own.unsolved")
    finally:
        del tos_workshop.EXERCISES["own.unsolved"]
