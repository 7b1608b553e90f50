"""The processes behind a worker: Spark's daemon and the executor's JVM."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.clusters.standalone import EXECUTOR, command_line, parent


def executor_of(worker: int) -> int:
    """Return the executor's JVM that a Python worker belongs to."""
    pid = worker
    while EXECUTOR not in command_line(pid) or "/java " not in command_line(pid):
        pid = parent(pid)
        if pid <= 1:
            raise LookupError(f"Process {worker} belongs to no executor.")
    return pid


def environment(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it has ended."""
    try:
        text = Path(f"/proc/{pid}/environ").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def with_environment(name: str, value: str) -> list[int]:
    """Return the processes that were started with this in their environment."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if environment(pid).get(name) == value]


def kill(*pids: int) -> None:
    """Kill processes at once, without a last word."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
