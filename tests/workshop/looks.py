"""What `tos_workshop.check` says, for tests of the exercises."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from typing import Any

import tos_workshop

CALL = re.compile(r'^tos_workshop\.check\(\s*"([^"]+)".*', re.MULTILINE)
"""The line of a notebook that checks an exercise."""


def said(exercise: str, *made: Any) -> str:
    """Return what a learner reads."""
    heard = io.StringIO()
    with redirect_stdout(heard):
        tos_workshop.check(exercise, *made)
    return heard.getvalue()


def praised(exercise: str, *made: Any) -> None:
    heard = said(exercise, *made)
    assert heard.startswith("Right. "), heard


def hinted(words: str, exercise: str, *made: Any) -> None:
    """Expect a hint with these words in it."""
    heard = said(exercise, *made)
    assert heard.startswith("Not yet. "), heard
    assert words in heard
