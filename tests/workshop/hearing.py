"""What a learner reads."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

from tos_notebook import workshop


def said(exercise: str, *made: Any) -> str:
    """Return what `check` says of what was made for an exercise."""
    heard = io.StringIO()
    with redirect_stdout(heard):
        workshop.check(exercise, *made)
    return heard.getvalue()
