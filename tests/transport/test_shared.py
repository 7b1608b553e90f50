"""Memory that two processes share: made, found, and never left behind."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tos_notebook.transport import shared
from tos_notebook.transport.shared import Segment, attach

SIZES = [1, 63, 4096, 4097, 1_000_000]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of the system's, empty before and after."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(shared, "FOLDER", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("nbytes", SIZES)
def test_both_sides_see_what_either_writes(folder: Path, nbytes: int) -> None:
    with Segment(nbytes) as segment:
        other = attach(segment.name, nbytes)
    assert other is not None
    assert segment.buffer.shape == other.shape == (nbytes,)
    segment.buffer[:] = 7
    assert (other == 7).all()
    other[-1] = 9
    assert segment.buffer[-1] == 9


def test_a_new_segment_is_aligned_zeroed_and_private(folder: Path) -> None:
    with Segment(100) as segment:
        (path,) = folder.iterdir()
        assert path.name == segment.name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.stat().st_size == 100
    assert segment.buffer.ctypes.data % 64 == 0
    assert not segment.buffer.any()


def test_attaching_removes_the_name_and_only_one_can(folder: Path) -> None:
    with Segment(8) as segment:
        assert attach(segment.name, 8) is not None
        assert list(folder.iterdir()) == []
        assert attach(segment.name, 8) is None


def test_a_segment_that_nobody_attached_leaves_no_name_either(folder: Path) -> None:
    with pytest.raises(ValueError, match="while connecting"), Segment(8) as segment:
        raise ValueError("while connecting")
    assert list(folder.iterdir()) == []
    segment.unlink()
    segment.unlink()
    segment.buffer[:] = 1


def test_no_two_segments_share_a_name() -> None:
    with Segment(8) as one, Segment(8) as other:
        assert one.name != other.name


def test_the_memory_is_another_process_s_too(folder: Path) -> None:
    program = (
        "import sys; from tos_notebook.transport import shared; shared.FOLDER = sys.argv[1]; "
        "shared.attach(sys.argv[2], 64)[:] = 5"
    )
    with Segment(64) as segment:
        subprocess.run(
            [sys.executable, "-c", program, str(folder), segment.name],
            check=True,
            timeout=60,
            cwd=Path(__file__).parents[2],
        )
    assert (segment.buffer == 5).all()


# -- what cannot be attached -------------------------------------------------------------


@pytest.mark.parametrize("difference", [-1, 1, 4096])
def test_a_segment_of_another_size_is_refused_and_stays(folder: Path, difference: int) -> None:
    with Segment(100) as segment:
        assert attach(segment.name, 100 + difference) is None
        assert [path.name for path in folder.iterdir()] == [segment.name]


def _name() -> str:
    return f"tos-{secrets.token_hex(16)}"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tos-",
        ".",
        "secret",
        "../secret",
        "tos-" + "0" * 31,
        "tos-" + "0" * 33,
        "tos-" + "0" * 32 + "\n",
        "tos-" + "A" * 32,
        "tos-" + "0" * 31 + "/",
        "/etc/passwd",
        "tos-../../../../../../etc/passwd\0",
    ],
    ids=repr,
)
def test_a_name_that_is_not_ours_is_not_even_looked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    secret = folder.parent / "secret"
    secret.write_bytes(bytes(8))
    monkeypatch.setattr(os, "open", _unexpected)
    assert attach(name, 8) is None
    assert secret.exists()


def _unexpected(*_: Any, **__: Any) -> Any:
    raise AssertionError("opened")


def test_a_link_is_not_followed(folder: Path) -> None:
    target = folder.parent / "target"
    target.write_bytes(bytes(8))
    link = folder / _name()
    link.symlink_to(target)
    assert attach(link.name, 8) is None
    assert link.is_symlink()
    link.unlink()


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused_without_waiting(folder: Path, kind: str) -> None:
    path = folder / _name()
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    assert attach(path.name, 0) is None
    assert path.exists()
    path.rmdir() if kind == "folder" else path.unlink()


def test_a_segment_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with Segment(8) as segment:
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
            assert attach(segment.name, 8) is None
        assert attach(segment.name, 8) is not None


def test_a_segment_that_cannot_be_mapped_is_refused_and_its_name_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Segment(8) as segment:
        monkeypatch.setattr(shared, "_map", _fails_with(errno.ENOMEM))
        assert attach(segment.name, 8) is None
        assert list(folder.iterdir()) == []


def _fails_with(number: int) -> Any:
    def call(*_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return call


# -- hosts that have none to give --------------------------------------------------------


def _is_ordinary(segment: Segment, nbytes: int) -> bool:
    segment.buffer[:] = 3
    return (
        segment.name == ""
        and segment.buffer.shape == (nbytes,)
        and segment.buffer.ctypes.data % 64 == 0
        and bool(np.all(segment.buffer == 3))
        and attach(segment.name, nbytes) is None
    )


@pytest.mark.parametrize("nbytes", SIZES)
def test_without_the_folder_memory_is_ordinary(
    monkeypatch: pytest.MonkeyPatch, nbytes: int
) -> None:
    monkeypatch.setattr(shared, "FOLDER", "/nowhere")
    with Segment(nbytes) as segment:
        assert _is_ordinary(segment, nbytes)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_on_a_full_file_system_memory_is_ordinary(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", _fails_with(number))
    with Segment(100) as segment:
        assert _is_ordinary(segment, 100)
        assert list(folder.iterdir()) == []


def test_descriptors_are_closed_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    with Segment(8) as segment:
        assert attach(segment.name, 9) is None
    monkeypatch.setattr(os, "posix_fallocate", _fails_with(errno.ENOSPC))
    with Segment(8):
        pass
    # A mapping keeps a descriptor of its own for as long as it lives.
    del segment
    assert opened() == before
