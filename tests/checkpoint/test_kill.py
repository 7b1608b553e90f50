"""A driver is killed in mid-epoch; another process goes on, and every batch counts once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.checkpoint import dying
from tests.checkpoint.test_keeper import Disk
from tests.checkpoint.victim import DATA, ROWS
from tests.worker.support import center, counting_training, numbers
from tos_notebook.errors import CheckpointError
from tos_notebook.steering.sync import as_sync
from tos_notebook.training.checkpoint.folder import Folder
from tos_notebook.training.saved import _last

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


@pytest.mark.parametrize("sync", ["asp", "ssp:1", "bsp"])
def test_a_run_killed_at_any_byte_that_it_writes_continues_with_every_batch_once(
    tmp_path: Path, sync: str
) -> None:
    """Within a checkpoint or a part of the history, at bytes drawn once and for all."""
    instants = [*sorted(random.Random(sync).sample(range(1, 40_000), 12)), 300_000]
    subprocess.run(
        [sys.executable, "-m", "tests.checkpoint.dying", tmp_path, sync, *map(str, instants)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        timeout=LIMIT,
    )
    continued = [_continued(tmp_path / str(instant), sync) for instant in instants]
    # One that is killed early may have no checkpoint yet.
    assert continued[-1]


def _continued(folder: Path, sync: str) -> bool:
    """Train a killed run to the end of another epoch; return whether it had a checkpoint."""
    try:
        _, saved = _last(Folder(Disk(folder)))
    except CheckpointError:
        assert not (folder / "checkpoint-00000002.tos").exists()
        return False
    reached = saved.progress.reached.epoch
    # A partition may be epochs ahead of the other.
    epochs = 2 + max([reached, *(epoch for epoch, *_ in saved.progress.ledger["records"])])
    rule = saved.settings_with().strategy.combiner
    training, _ = counting_training(
        dying.PARTITIONS, epochs, rule, 2, dying.ROWS, sync=as_sync(sync), first=reached
    )
    training.restore(saved.progress)
    dying.train(training)
    assert center(training) == {
        "total": epochs * numbers(dying.ROWS).sum(),
        "rows": epochs * dying.ROWS,
    }
    return True
