"""The processes behind a worker: Spark's daemon and the executor's JVM."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.cluster.standalone import EXECUTOR, command_line, descendants, parent


def executor_of(worker: int) -> int:
    """Return the executor's JVM that a Python worker belongs to."""
    pid = worker
    while EXECUTOR not in command_line(pid) or "/java " not in command_line(pid):
        pid = parent(pid)
        if pid <= 1:
            raise LookupError(f"Process {worker} belongs to no executor.")
    return pid


def kill(*pids: int) -> None:
    """Kill processes at once, without a last word."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    """Kill a process and all below it."""
    kill(*descendants(pid), pid)


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
