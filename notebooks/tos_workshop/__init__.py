"""The exercises of the course in ``notebooks/``: `check` says what is right, or what to look at."""

from __future__ import annotations

import importlib
from typing import Any

from tos_notebook.common.checks import one_of

from .exercise import EXERCISES, NotYet

CHAPTERS: tuple[str, ...] = (
    "first_steps",
    "original",
    "server",
    "staleness",
    "stragglers",
    "modes",
    "images",
    "layouts",
    "own_combiner",
    "clusters",
)
"""Modules with the exercises of one notebook each."""


def check(exercise: str, *made: Any) -> None:
    """Look at what you made for an exercise, and print what is right, or what to look at.

    Parameters
    ----------
    exercise : str
        Its name, as the notebook gives it: ``chapter.task``.
    *made : any
        What the exercise asks for: a number, an array, a function, a run.

    Raises
    ------
    ConfigError
        There is no such exercise.

    Examples
    --------
    >>> tos_workshop.check("server.stale", 3)                             # doctest: +SKIP
    """
    for chapter in CHAPTERS:
        importlib.import_module(f".{chapter}", __name__)
    one_of("exercise", exercise, tuple(EXERCISES))
    try:
        praise = EXERCISES[exercise](*made)
    except NotYet as hint:
        print(f"Not yet. {hint}")
    except Exception as error:
        # A learner's function, or something of another kind than was asked for.
        print(f"Not yet. It raised {type(error).__name__}: {error}")
    else:
        print(f"Right. {praise}")
