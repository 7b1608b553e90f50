"""What `tos.workshop.check` says, for tests of the exercises."""

from __future__ import annotations

from typing import Any

import pytest

from tos_notebook.workshop import check

Capture = pytest.CaptureFixture[str]


def praised(capsys: Capture, exercise: str, *made: Any) -> None:
    check(exercise, *made)
    said = capsys.readouterr().out
    assert said.startswith("Right. "), said


def hinted(capsys: Capture, words: str, exercise: str, *made: Any) -> None:
    """Expect a hint with these words in it."""
    check(exercise, *made)
    said = capsys.readouterr().out
    assert said.startswith("Not yet. "), said
    assert words in said
