"""How many bytes of parameters a worker sends at once."""

from __future__ import annotations

from statistics import fmean

from ..telemetry.pace import Paces
from .parts import RunParts


def sent_bytes(parts: RunParts, paces: Paces) -> int:
    """Return the bytes of an exchange with a parameter server, in its busier direction.

    Where tables are exchanged by row, they are as measured; else those of all parameters.
    """
    layout, settings = parts.program.layout, parts.training.settings.strategy
    by_row = getattr(settings, "by_row", False) and layout.tables
    measured = [max(w.bytes_up, w.bytes_down) for w in paces.workers]
    if not by_row or not any(measured):
        return layout.nbytes
    return min(layout.nbytes, max(1, round(fmean(measured))))
