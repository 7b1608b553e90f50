"""A driver is killed in mid-epoch; another process goes on, and every batch counts once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from tests.checkpoint.victim import DATA, ROWS

LIMIT = 300.0
"""Seconds, on a machine that is busy."""
LOOK = 0.002
"""Seconds between two looks for a checkpoint; a run writes one in some 20 ms."""
ROOT = Path(__file__).parents[2]


def process(*arguments: str, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.checkpoint.victim", *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def killed(folder: Path, checkpoints: int) -> str:
    """Let a process train until there are some checkpoints, kill it, and return the run's URI."""
    victim = process("start", str(folder))
    try:
        assert victim.stdout is not None
        uri = victim.stdout.readline().strip()
        place, deadline = Path(uri.removeprefix("file:")), monotonic() + LIMIT
        # Nobody tells when a file appears.
        while not (place / f"checkpoint-{checkpoints:08d}.tos").exists():
            assert victim.poll() is None, "the run ended before it was to be killed"
            assert monotonic() < deadline
            sleep(LOOK)
        victim.send_signal(signal.SIGKILL)
    finally:
        victim.kill()
        victim.wait()
    return uri


def resumed(uri: str) -> dict[str, Any]:
    other = process("resume", uri, stderr=subprocess.PIPE)
    out, errors = other.communicate(timeout=LIMIT)
    assert other.returncode == 0, errors
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def test_a_killed_driver_costs_no_batch_and_counts_none_twice(tmp_path: Path) -> None:
    """Here in the second epoch or a later one, whose layout is another than the first one's."""
    # An epoch has about 120 pushes, and a checkpoint comes after 20 each.
    uri = killed(tmp_path, checkpoints=8)
    found = resumed(uri)
    epochs = found["epochs"]
    assert epochs > 2
    assert found["state"] == "finished"
    assert found["total"] == [epochs * DATA.sum(), epochs * ROWS]
    # The history goes on where the checkpoint was, with every milestone once.
    assert 0 < found["from"] < len(found["versions"])
    assert found["versions"] == list(range(1, len(found["versions"]) + 1))
    assert found["samples"] == epochs * ROWS
