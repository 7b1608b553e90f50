"""A run's error in parts: what a person needs first, and the rest to be folded away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from ..errors import place
from ..events import WorkerFailed
from .news import Failure

REST = 16_000
"""Characters of the rest that are kept."""

_OTHERS = re.compile(
    r'File "[^"]*/(site-packages|dist-packages|pyspark|tos_notebook|lib/python3[^/]*)/|<frozen '
)
"""Frames that are not the user's, as an executor may see them: its paths are not ours."""


def failure(event: WorkerFailed | None, text: str | None) -> Failure:
    """Return an error as the view and the picture show it.

    Parameters
    ----------
    event : WorkerFailed or None
        What a worker raised last.
    text : str or None
        What the run says at its end; it may be something else than `event`.
    """
    if event is None or (text is not None and not _tells(text, event.message)):
        first, _, rest = (text or "").partition("\n")
        return {"message": first, "where": None, "frames": [], "rest": rest[:REST]}
    return in_parts(event.message, place(event), event.frames)


def in_parts(message: str, where: str | None, frames: Sequence[str]) -> Failure:
    """Return an error as it is shown.

    Parameters
    ----------
    message : str
    where : str or None
        None if no worker is to blame.
    frames : sequence of str
        The user's own come first.
    """
    message, _, more = message.partition("\n")
    own = list(takewhile(lambda frame: not _OTHERS.search(frame), frames))
    rest = "\n".join(part for part in (more, *frames[len(own) :]) if part)
    return {"message": message, "where": where, "frames": own, "rest": rest[:REST]}


def _tells(text: str, message: str) -> bool:
    """Return whether a run's error is what a worker raised, perhaps by the error's own name."""
    own = message.partition(": ")[2]
    return text.startswith(message) or (bool(own) and text.startswith(own))
