"""How often a learner has tried an exercise in this kernel."""

from __future__ import annotations

import inspect
from collections import defaultdict
from contextlib import suppress
from typing import Any

TRIES = 3
"""Different answers after which a solution is shown."""


class Tries:
    """Counts the different answers to each exercise; nothing is stored or sent anywhere."""

    def __init__(self) -> None:
        self._answers: defaultdict[str, set[str]] = defaultdict(set)
        self._solved: set[str] = set()

    def add(self, exercise: str, made: tuple[Any, ...]) -> None:
        """Count an answer, unless it was given before."""
        self._answers[exercise].add("\n".join(map(_text, made)))

    def solve(self, exercise: str) -> None:
        """Note that an answer was right."""
        self._solved.add(exercise)

    def left(self, exercise: str) -> int:
        """Return how many more answers an exercise asks for before it shows a solution."""
        if exercise in self._solved:
            return 0
        return max(0, TRIES - len(self._answers[exercise]))


def _text(made: Any) -> str:
    """Return what distinguishes answers: the code of a function or class, else the value."""
    if inspect.isclass(made):
        return "\n".join(map(_text, filter(inspect.isfunction, vars(made).values())))
    if inspect.isfunction(made):
        with suppress(OSError):
            return inspect.getsource(made)
    if type(made).__module__ == "__main__":
        return _text(type(made))
    return repr(made)
