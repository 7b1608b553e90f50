"""The exercises of the course in ``notebooks/``: `check`, `solution`, and a `race` of combiners."""

from __future__ import annotations

import importlib
from typing import Any

from tos_notebook.common.checks import one_of

from .exercise import EXERCISES, NotYet
from .races import race
from .solutions import SOLUTIONS
from .tries import TRIES, Tries

__all__ = ["CHAPTERS", "check", "race", "solution"]

CHAPTERS: tuple[str, ...] = (
    "first_steps",
    "original",
    "one_gradient",
    "server",
    "staleness",
    "stragglers",
    "modes",
    "images",
    "layouts",
    "own_combiner",
    "clusters",
    "closing",
    "tensorflow_cluster",
)
"""Modules with the exercises of one notebook each."""

_tries = Tries()


def check(exercise: str, *made: Any) -> None:
    """Check your answer to an exercise, and print whether it is right or what to look at.

    Parameters
    ----------
    exercise : str
        Its name, as the notebook gives it: ``chapter.task``.
    *made : any
        Your answer: a number, an array, a function, a run.

    Raises
    ------
    ConfigError
        No exercise has this name.

    Examples
    --------
    >>> tos_workshop.check("server.stale", 3)                             # doctest: +SKIP
    """
    look = EXERCISES[_known(exercise)]
    try:
        praise = look(*made)
    except NotYet as hint:
        _tries.add(exercise, made)
        print(f"Not yet. {hint}")
    except Exception as error:
        # A learner's function, or something of another kind than was asked for.
        _tries.add(exercise, made)
        print(f"Not yet. It raised {type(error).__name__}: {error}")
    else:
        _tries.solve(exercise)
        print(f"Right. {praise}")


def solution(exercise: str) -> None:
    """Print a solution, once you have solved the exercise or tried three different answers.

    Parameters
    ----------
    exercise : str
        Its name, as for `check`.

    Raises
    ------
    ConfigError
        No exercise of the course has this name.

    Examples
    --------
    >>> tos_workshop.solution("server.stale")                             # doctest: +SKIP
    """
    one_of("exercise", _known(exercise), tuple(SOLUTIONS))
    left = _tries.left(exercise)
    if left:
        print(f"Try {left} more answer{'s' * (left > 1)} first: after {TRIES} you see a solution.")
        return
    print(SOLUTIONS[exercise])


def _known(exercise: str) -> str:
    """Return the exercise's name, if one of the chapters has it."""
    for chapter in CHAPTERS:
        importlib.import_module(f".{chapter}", __name__)
    return one_of("exercise", exercise, tuple(EXERCISES))
