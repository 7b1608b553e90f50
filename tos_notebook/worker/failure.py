"""Describe an exception for the driver: its text, and the user's own lines first."""

from __future__ import annotations

import traceback
from collections.abc import Iterable

OTHERS = ("/site-packages/", "/dist-packages/", "/pyspark/", "/tos_notebook/", "<frozen ")
"""Parts of the file names of frames that are not the user's."""

DETAILS = 12
"""How many frames that are not the user's are kept, the innermost."""


def describe(error: BaseException) -> tuple[str, list[str]]:
    """Return an exception's text and its traceback.

    Parameters
    ----------
    error : BaseException

    Returns
    -------
    message : str
        ``TypeName: text``.
    frames : list of str
        One for each frame, as Python prints them: the user's, innermost last, then the
        others'.
    """
    summary = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in summary if _is_users(frame.filename)]
    others = [frame for frame in summary if not _is_users(frame.filename)]
    return f"{type(error).__name__}: {error}", [*_lines(own), *_lines(others[-DETAILS:])]


def _is_users(filename: str) -> bool:
    return not any(part in filename for part in OTHERS)


def _lines(frames: Iterable[traceback.FrameSummary]) -> list[str]:
    return [line.rstrip() for line in traceback.format_list(list(frames))]
