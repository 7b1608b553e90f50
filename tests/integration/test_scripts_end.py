"""A script ends although a run of its own is still active, and leaves no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.worker.support import until

ROOT = Path(__file__).parents[2]

SCRIPT = """
import atexit
import sys
import threading

import numpy as np

import tos_notebook as tos
from tests.faults import counting

session = tos.TrainingSession(
    tos.connect("local[2]"), counting.program(), strategy=sys.argv[1], batch_size=1
)
run = session.start((np.arange(1.0, 1001.0),), epochs=100_000)
run.wait_for(milestones=4, timeout=120)
print(run.state)


def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")


if sys.argv[2] == "3.12":
    atexit.register(setattr, threading.Thread, "start", refuse)
"""
"""Trains with a strategy, and ends as a Python of a version does: from 3.12 on without threads."""


def of_session(session: int) -> list[str]:
    """Return the command lines of the processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return [each for each in found if each]


@pytest.mark.parametrize(
    ("strategy", "version"),
    [("ps", "3.12"), ("tensorflow", "3.11"), ("tensorflow", "3.12"), ("tensorflow:sync", "3.12")],
)
def test_a_script_ends_although_its_run_is_active(
    strategy: str, version: str, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, strategy, version],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=180)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "running\n"), err
    assert "Traceback" not in err
    until(lambda: not of_session(process.pid), 60)
