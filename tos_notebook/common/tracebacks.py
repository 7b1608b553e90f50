"""Describe an exception for the driver: its text, and the user's own lines first."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

from ..errors import TosError

PACKAGE = str(Path(__file__).parents[1]) + "/"
"""This package's folder."""

_OTHERS = ("/site-packages/", "/dist-packages/", "/pyspark/", "<frozen ")
"""Parts of the file names of frames that are not the user's."""

_FOLDERS = (PACKAGE, sysconfig.get_path("stdlib") + "/")
"""Frames in these folders are not the user's either."""

OWN, DETAILS = 40, 12
"""How many of the user's frames and of the others are kept, the innermost. A recursion
without end has a thousand."""

MAX_TEXT = 32_768
"""Characters of the exception's text that are kept; TensorFlow's may hold a whole graph."""


def describe(error: BaseException) -> tuple[str, list[str]]:
    """Return an exception's text and its traceback.

    Returns
    -------
    message : str
        ``TypeName: text``.
    frames : list of str
        One for each frame, as Python prints them: the user's, innermost last, then the
        others'.
    """
    message = f"{type(error).__name__}: {error}"[:MAX_TEXT]
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, TosError):
        # It says all that there is to say: where this package raised it does not help.
        frames = traceback.StackSummary(frame for frame in frames if is_users(frame.filename))
    return message, users_first(frames)


def users_first(frames: Iterable[traceback.FrameSummary]) -> list[str]:
    """Return frames, innermost last, as lines: the user's before the others'."""
    frames = list(frames)
    own = [frame for frame in frames if is_users(frame.filename)]
    others = [frame for frame in frames if not is_users(frame.filename)]
    lines = traceback.format_list(own[-OWN:] + others[-DETAILS:])
    return [line.rstrip() for line in lines]


def is_users(filename: str) -> bool:
    """Return whether a file holds the user's code: neither a library's nor this package's."""
    return not filename.startswith(_FOLDERS) and not any(part in filename for part in _OTHERS)
