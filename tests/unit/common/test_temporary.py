"""Temporary folders: of a process that was killed swept, of a living one spared."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tos_notebook.common import temporary

OWNER = """
import sys
from tos_notebook.common import temporary
print(temporary.folder(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def owner(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a process that has a folder until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env=os.environ | {"TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_living_processs_folder_is_spared_and_a_killed_ones_swept(place: Path) -> None:
    with owner(place) as (process, folder):
        (folder / "program").mkdir()
        (folder / "program" / "data").write_bytes(b"rows")
        temporary.sweep()
        assert (folder / "program" / "data").read_bytes() == b"rows"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert folder.exists()
        temporary.sweep()
        assert not folder.exists()


def test_the_next_process_sweeps(place: Path) -> None:
    with owner(place) as (process, killed):
        process.kill()
        process.wait()
    with owner(place) as (_, folder):
        assert folder.exists()
        assert not killed.exists()


def test_a_process_that_ends_leaves_nothing(place: Path) -> None:
    with owner(place) as (process, _):
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0
    assert not list(place.iterdir())


def test_what_has_no_owner_is_nobodys_to_sweep(place: Path) -> None:
    begun = place / "tos-begun"
    begun.mkdir()
    (begun / ".new").touch()
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".owner").touch()
    (place / "tos-link").symlink_to(elsewhere)
    temporary.sweep()
    assert begun.exists()
    assert elsewhere.exists()


def test_a_process_has_one_folder_and_directories_lie_in_it(place: Path) -> None:
    own = temporary.folder()
    assert temporary.folder() == own
    assert own.parent == place
    with temporary.directory("tos-checkpoint-") as name:
        assert Path(name).parent == own
    assert not Path(name).exists()
