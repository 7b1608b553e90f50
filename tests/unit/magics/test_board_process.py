"""TensorBoard as a process: it serves what a run has written, and ends with the kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.unit.telemetry.samples import milestone, started
from tests.unit.training.observers.test_tensorboard import Boarded
from tests.unit.worker.support import until
from tos_notebook.events import EpochFinished

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("board_program.py")
LIMIT = 60.0
LOSSES = [2.0, 1.0, 0.5]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder with the event file of a run of three epochs."""
    boarded = Boarded()
    boarded.board(started(0.0))
    for epoch, loss in enumerate(LOSSES):
        boarded.board(milestone(2.0 * epoch + 1, loss=loss, samples=10))
        boarded.board(EpochFinished(2.0 * epoch + 2, epoch, 10))
    boarded.board.finish(last=True)
    folder = tmp_path / "a run's logs"
    folder.mkdir()
    (folder / "events.out.tfevents.1").write_bytes(boarded.file.shown)
    return folder


def get(port: int, path: str) -> Any:
    with urlopen(f"http://127.0.0.1:{port}/data/plugin/scalars/{path}", timeout=LIMIT) as answer:
        return json.load(answer)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_serves_the_runs_curves_and_ends_with_the_kernel(logs: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    (tmp_path / "tmp").mkdir()
    # As where a kernel is started by its full path: nothing beside Python is on the PATH.
    own = {"PYTHONPATH": str(ROOT), "PATH": os.defpath, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(logs)],
        env={k: v for k, v in os.environ.items() if k != "TENSORBOARD_BINARY"} | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as kernel:
        assert kernel.stdin is not None
        assert kernel.stdout is not None
        said = ""
        for said in kernel.stdout:
            if said.startswith("["):
                break
        ((port, pid),) = json.loads(said)
        # It reads the files when it has begun to serve.
        until(lambda: bool(get(port, "tags")), LIMIT)
        tags = get(port, "tags")["."]
        curve = get(port, f"scalars?run=.&tag={quote('training/loss')}")
        kernel.stdin.close()
        assert kernel.wait(LIMIT) == 0
    assert {"training/loss", "training/epoch", "worker 0/loss"} <= {*tags}
    assert [(step, value) for _, step, value in curve] == [(10, 2.0), (20, 1.0), (30, 0.5)]
    until(lambda: not alive(pid), LIMIT)
