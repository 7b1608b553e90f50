"""A script ends although runs of its own are still active, and leaves no process behind."""

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

strategies = sys.argv[2:]
spark = tos.connect(f"local[{2 * len(strategies)}]")
program = counting.program()
sessions = [
    tos.TrainingSession(spark, program, strategy=strategy, batch_size=1)
    for strategy in strategies
]
data = (np.arange(1.0, 1001.0),)
runs = [session.start(data, epochs=100_000, partitions=2) for session in sessions]
for run in runs:
    # It leaves the cores to the others, which still start.
    run.chaos(tos.chaos.Pause(0.05, any=2))
for run in runs:
    run.wait_for(milestones=4, timeout=120)
print(*(run.state for run in runs))


def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")


if sys.argv[1] == "3.12":
    atexit.register(setattr, threading.Thread, "start", refuse)
"""
"""Trains with strategies, all at once, and ends as a Python does: from 3.12 on without threads."""


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
    ("version", "strategies"),
    [
        pytest.param("3.11", ["tensorflow"], marks=pytest.mark.long),
        ("3.12", ["ps"]),
        pytest.param("3.12", ["ps", "tensorflow"], marks=pytest.mark.long),
        pytest.param("3.12", ["ps", "tensorflow", "tensorflow:sync"], marks=pytest.mark.long),
    ],
)
def test_a_script_ends_although_its_runs_are_active(
    version: str, strategies: list[str], tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, version, *strategies],
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
    assert (process.returncode, out.split()) == (0, ["running"] * len(strategies)), err
    assert "Traceback" not in err
    until(lambda: not of_session(process.pid), 60)
