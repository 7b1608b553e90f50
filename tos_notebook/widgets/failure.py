"""A run's error in parts: what a person needs first, and the rest to be folded away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from ..events import WorkerFailed

REST = 16_000
"""Characters of the rest that are kept."""

_OTHERS = re.compile(
    r'File "[^"]*/(site-packages|dist-packages|pyspark|tos_notebook|lib/python3[^/]*)/|<frozen '
)
"""Frames that are not the user's, as an executor may see them: its paths are not ours."""


def failure(event: WorkerFailed | None, text: str | None) -> dict[str, Any]:
    """Return an error as the view and the picture show it.

    Parameters
    ----------
    event : WorkerFailed or None
        What a worker raised last.
    text : str or None
        What the run says at its end; it may be something else than `event`.

    Returns
    -------
    dict
        With keys message, executor, partition, attempt, frames (the user's
        own), rest (text, may be empty).
    """
    if event is None or (text is not None and not text.startswith(event.message)):
        first, _, rest = (text or "").partition("\n")
        nothing = dict.fromkeys(("executor", "partition", "attempt"))
        return {"message": first, **nothing, "frames": [], "rest": rest[:REST]}
    message, _, more = event.message.partition("\n")
    own, others = _split(event.frames)
    rest = "\n".join(part for part in (more, *others) if part)
    return {
        "message": message,
        "executor": event.executor,
        "partition": event.partition,
        "attempt": event.attempt,
        "frames": own,
        "rest": rest[:REST],
    }


def _split(frames: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell the user's frames, which come first, from the others."""
    own = list(takewhile(lambda frame: not _OTHERS.search(frame), frames))
    return own, list(frames[len(own) :])
