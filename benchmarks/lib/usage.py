"""What processes take of memory and of processors, as Linux counts it."""

from __future__ import annotations

import os
import re
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def resident(kind: str = "VmRSS", pid: int | str = "self") -> int:
    """Return bytes of a process that are in memory: ``VmRSS``, or ``VmHWM``, their peak.

    Raises
    ------
    RuntimeError
        This is no Linux.
    """
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(rf"^{kind}:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"/proc/{pid}/status has no {kind}: this benchmark needs Linux.")
    return int(found[1]) * 1024


def processor_seconds(pid: int) -> float:
    """Return the seconds that a process has kept processors busy; in steps of 10 ms."""
    # What is in brackets is the program's name, which may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
