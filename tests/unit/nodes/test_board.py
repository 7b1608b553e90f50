"""TensorBoard beside a node: that it does not run is told once, and why."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.worker.support import until
from tos_notebook.nodes.board import FIXED, Board


def fake(folder: Path, script: str) -> str:
    """Return an executable that is called in Python's place."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


def news(board: Board) -> str:
    """Wait for what a board tells."""
    found: list[str] = []

    def told() -> bool:
        found.extend(board.news().values())
        return bool(found)

    until(told)
    return found[0]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo warning; echo No TensorBoard here. >&2; echo; exit 3", "3: No TensorBoard here."),
        ("exit 1", "1: it said nothing"),
    ],
)
def test_one_that_ends_at_once_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    monkeypatch.setattr(sys, "executable", fake(tmp_path, script))
    with Board(str(tmp_path), "127.0.0.1") as board:
        assert news(board) == f"has ended with exit code {told}"
        assert board.news() == {}


@pytest.mark.parametrize("what", ["executable", "port"])
def test_one_that_cannot_be_started_is_told_and_leaves_its_node_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "port":
        monkeypatch.setenv(FIXED, "mine")
    else:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with Board(str(tmp_path), "127.0.0.1") as board:
        assert news(board).startswith("could not be started: ")
        assert (board.port, board.pid) == (0, 0)


def test_one_that_runs_has_nothing_to_tell_and_ends_with_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", fake(tmp_path, "exec sleep 60"))
    with Board(str(tmp_path), "127.0.0.1") as board:
        assert board.news() == {}
        assert Path(f"/proc/{board.pid}").exists()
    assert not Path(f"/proc/{board.pid}").exists()


def test_one_whose_keeper_is_killed_ends_too(tmp_path: Path) -> None:
    code = "\n".join(
        [
            "import sys",
            "from tos_notebook.nodes.board import Board",
            "board = Board(sys.argv[1], '127.0.0.1')",
            "print(board.pid, flush=True)",
            "sys.stdin.read()",
        ]
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as keeper:
        assert keeper.stdout is not None
        pid = int(keeper.stdout.readline())
        # The kernel shows a command line a moment after the process has begun.
        until(lambda: "tensorboard.main" in running(pid))
        keeper.kill()
    until(lambda: not running(pid))


def running(pid: int) -> str:
    """Return a process's command line; nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""
