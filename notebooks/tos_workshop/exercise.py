"""What an exercise is."""

from __future__ import annotations

from collections.abc import Callable

Look = Callable[..., str]
"""Looks at what a learner made; returns what is good about it, or raises `NotYet`."""

EXERCISES: dict[str, Look] = {}
"""By name, ``chapter.task``, in the order of the course."""


class NotYet(Exception):
    """What a learner made is not right yet; the text says what to look at, not the answer."""


def exercise(name: str) -> Callable[[Look], Look]:
    """Register what looks at an exercise."""

    def register(look: Look) -> Look:
        EXERCISES[name] = look
        return look

    return register


def expect(right: object, hint: str) -> None:
    """Continue if something is right.

    Raises
    ------
    NotYet
        It is not.
    """
    if not right:
        raise NotYet(hint)
