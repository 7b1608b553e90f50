"""Words for people."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable


def say(*lines: str) -> None:
    """Write lines below the cell."""
    sys.stdout.write("\n".join(lines) + "\n")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` Did you mean ...?`` for what a word resembles most; empty if nothing does."""
    close = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f" Did you mean {close[0]}?" if close else ""


def in_bytes(count: float) -> str:
    """Return a number of bytes in a fitting unit."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.3g} {unit}"
    return f"{count / 1000:.3g} GB"


def counted(count: int, noun: str) -> str:
    """Return such as ``1 epoch`` or ``1,200 epochs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
