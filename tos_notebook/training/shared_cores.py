"""The cores that all workers of a run share, where that is known."""

from __future__ import annotations

import os
import socket

from ..telemetry.pace import Paces
from .parts import RunParts


def shared_cores(parts: RunParts, paces: Paces) -> int | None:
    """Return how many cores the machine of all workers has; None if that is not the driver's."""
    if not paces.local and paces.host not in (parts.task.host, socket.gethostname()):
        return None
    return len(os.sched_getaffinity(0))
