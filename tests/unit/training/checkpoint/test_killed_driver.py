"""A driver is killed in mid-epoch; another process continues, and every batch counts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

import tos_notebook as tos
from tests.unit.training.checkpoint.victim import DATA, ROWS, rdd

LIMIT = 300.0
"""Seconds, on a machine that is busy."""
LOOK = 0.002
"""Seconds between two looks for a checkpoint; a run writes one in some 20 ms."""
ROOT = Path(__file__).parents[4]


def killed(folder: Path, checkpoints: int) -> str:
    """Let a process train until there are some checkpoints, kill it, and return the run's URI."""
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.training.checkpoint.victim", folder],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with victim:
        try:
            assert victim.stdout is not None
            uri = victim.stdout.readline().strip()
            place, deadline = Path(uri.removeprefix("file:")), monotonic() + LIMIT
            # Nothing tells when a file appears.
            while not (place / f"checkpoint-{checkpoints:08d}.tos").exists():
                assert victim.poll() is None, "the run ended before it was to be killed"
                assert monotonic() < deadline
                sleep(LOOK)
            victim.send_signal(signal.SIGKILL)
        finally:
            victim.kill()
    return uri


@pytest.mark.long
def test_a_killed_driver_costs_no_batch_and_counts_none_twice(
    spark_context: Any, tmp_path: Path
) -> None:
    """Here in the second epoch or a later one, whose layout is another than the first one's."""
    # An epoch has about 120 pushes, and a checkpoint comes after 20 each.
    uri = killed(tmp_path, checkpoints=8)
    (saved,) = tos.runs(uri, spark=spark_context)
    # To the end of the epoch after the one in which it was killed.
    epochs = saved.epoch + 1
    run = tos.resume(uri, rdd(spark_context), spark=spark_context, epochs=epochs)
    resumed_at = run.status.milestones
    assert run.wait(LIMIT).state == "finished"
    assert epochs > 2
    assert run.parameters()["total"].tolist() == [epochs * DATA.sum(), epochs * ROWS]
    # The history goes on where the checkpoint was, with every milestone once.
    versions = run.history["version"].tolist()
    assert 0 < resumed_at < len(versions)
    assert versions == list(range(1, len(versions) + 1))
    assert run.history["samples"].sum() == epochs * ROWS
