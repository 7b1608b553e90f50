"""`tos_workshop.check`, whatever the exercise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tos_workshop
from tests.workshop.looks import said
from tos_notebook.errors import ConfigError
from tos_workshop.exercise import EXERCISES, exercise, expect


@pytest.fixture
def own() -> Iterator[str]:
    """An exercise as a teacher adds one, in a notebook or a module of the class."""
    name = "own.double"

    @exercise(name)
    def double(made: object) -> str:
        expect(made(2) == 4, "Try it with 2.")  # type: ignore[operator]
        return "Twice as much."

    yield name
    del EXERCISES[name]


def test_an_exercise_of_ones_own_is_checked_like_the_courses(own: str) -> None:
    assert said(own, lambda x: 2 * x) == "Right. Twice as much.\n"
    assert said(own, lambda x: 3 * x) == "Not yet. Try it with 2.\n"


def test_what_a_learners_function_raises_is_told_in_one_line(own: str) -> None:
    assert said(own, lambda x: x / 0) == "Not yet. It raised ZeroDivisionError: division by zero\n"


def test_a_wrong_name_is_answered_with_the_names_that_there_are(own: str) -> None:
    with pytest.raises(ConfigError, match=r"expected one of .*own\.double; got 'own\.triple'"):
        tos_workshop.check("own.triple", 1)


def test_every_exercise_is_named_for_its_chapter() -> None:
    with pytest.raises(ConfigError):
        tos_workshop.check("", None)
    assert {name.partition(".")[0] for name in EXERCISES} == set(tos_workshop.CHAPTERS)
