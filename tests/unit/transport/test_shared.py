"""Memory that two processes share: made, found, never left behind, and never made shorter."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.transport.peers import memory
from tos_notebook.transport.shared import Segment, attach

SIZES = [1, 63, 4096, 4097, 1_000_000]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("nbytes", SIZES)
def test_both_sides_see_what_either_writes(nbytes: int) -> None:
    with Segment(nbytes) as segment:
        other = attach(segment.name, nbytes)
    assert other is not None
    assert segment.buffer.shape == other.shape == (nbytes,)
    segment.buffer[:] = 7
    assert (other == 7).all()
    other[-1] = 9
    assert segment.buffer[-1] == 9


def test_a_new_segment_is_aligned_and_zeroed() -> None:
    with Segment(100) as segment:
        assert segment.name
    assert segment.buffer.ctypes.data % 64 == 0
    assert not segment.buffer.any()


def test_once_the_worker_has_joined_nobody_can_attach_any_more() -> None:
    with Segment(8) as segment:
        assert attach(segment.name, 8) is not None
    assert attach(segment.name, 8) is None
    segment.close()
    segment.buffer[:] = 1


def test_it_is_its_owner_s_alone() -> None:
    with Segment(8) as segment:
        *_, process, descriptor = segment.name.split("-")
        found = Path(f"/proc/{process}/fd/{descriptor}").stat()
    assert found.st_mode & 0o777 == 0o600


def test_no_two_segments_share_a_name() -> None:
    with Segment(8) as one, Segment(8) as other:
        assert one.name != other.name


def test_the_memory_is_another_process_s_too() -> None:
    program = "import sys; from tos_notebook.transport import shared; " + (
        "shared.attach(sys.argv[1], 64)[:] = 5"
    )
    with Segment(64) as segment:
        command = [sys.executable, "-c", program, segment.name]
        subprocess.run(command, check=True, timeout=60, cwd=ROOT)
    assert (segment.buffer == 5).all()


# -- what cannot be attached -------------------------------------------------------------


def test_nobody_can_make_a_segment_shorter_or_longer() -> None:
    with Segment(100) as segment:
        descriptor = int(segment.name.rpartition("-")[2])
        for length in (0, 99, 101, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, length)


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_GROW, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL])
def test_memory_that_its_worker_could_make_shorter_is_refused(seals: int) -> None:
    name, descriptor = memory(100, seals)
    assert attach(name, 100) is None
    os.close(descriptor)


def test_a_peer_that_truncates_what_it_offered_ends_no_other_process() -> None:
    """A write to what was cut off would kill the process by a signal."""
    name, descriptor = memory(1 << 20, 0)
    program = "import os, sys; from tos_notebook.transport import shared; " + (
        "found = shared.attach(sys.argv[1], 1 << 20); print('tried', flush=True); input(); "
        "print('refused' if found is None else found.sum())"
    )
    command = [sys.executable, "-c", program, name]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "tried\n"
        os.ftruncate(descriptor, 0)
        said, _ = server.communicate("\n", timeout=60)
    assert (server.returncode, said.strip()) == (0, "refused")
    os.close(descriptor)


@pytest.mark.parametrize("difference", [-1, 1, 4096])
def test_a_segment_of_another_size_is_refused(difference: int) -> None:
    with Segment(100) as segment:
        assert attach(segment.name, 100 + difference) is None


def test_another_descriptor_or_process_than_the_worker_s_is_not_opened() -> None:
    with Segment(8) as segment, Segment(8) as other:
        token = segment.name.rsplit("-", 2)[0]
        _, process, number = other.name.rsplit("-", 2)
        assert attach(f"{token}-{process}-{number}", 8) is None
        assert attach(f"{token}-1-{number}", 8) is None


@pytest.mark.parametrize(
    "name",
    [
        *("", "tos-", ".", "secret", "../secret", "/etc/passwd", "tos-" + "0" * 32),
        "tos-" + "0" * 31 + "-1-1",
        "tos-" + "0" * 33 + "-1-1",
        "tos-" + "0" * 32 + "-1-1\n",
        "tos-" + "A" * 32 + "-1-1",
        "tos-" + "0" * 32 + "-self-1",
        "tos-" + "0" * 32 + "-1-../1",
        "tos-" + "0" * 32 + "-0-1",
        "tos-" + "0" * 32 + "-1-" + "1" * 40,
    ],
    ids=repr,
)
def test_a_name_that_is_not_ours_is_not_even_looked_for(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(os, "open", _unexpected)
    monkeypatch.setattr(Path, "readlink", _unexpected)
    assert attach(name, 8) is None


def _unexpected(*_: Any, **__: Any) -> Any:
    raise AssertionError("opened")


def test_a_file_is_refused_even_by_the_right_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = f"tos-{secrets.token_hex(16)}"
    path = tmp_path / "file"
    path.write_bytes(bytes(8))
    descriptor = os.open(path, os.O_RDWR)
    monkeypatch.setattr(Path, "readlink", lambda self: Path(f"/memfd:{token} (deleted)"))
    assert attach(f"{token}-{os.getpid()}-{descriptor}", 8) is None
    os.close(descriptor)


def test_a_segment_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with Segment(8) as segment:
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
            assert attach(segment.name, 8) is None
        assert attach(segment.name, 8) is not None


def test_a_segment_that_cannot_be_mapped_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with Segment(8) as segment:
        monkeypatch.setattr(mmap, "mmap", _fails_with(errno.ENOMEM))
        assert attach(segment.name, 8) is None


def _fails_with(number: int) -> Any:
    def call(*_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return call


# -- hosts that have none to give --------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOSYS, errno.EPERM])
@pytest.mark.parametrize("call", ["memfd_create", "posix_fallocate"])
def test_without_shared_memory_it_is_ordinary(
    monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    monkeypatch.setattr(os, call, _fails_with(number))
    with Segment(100) as segment:
        segment.buffer[:] = 3
        assert segment.name == ""
        assert segment.buffer.shape == (100,)
        assert segment.buffer.ctypes.data % mmap.PAGESIZE == 0
        assert np.all(segment.buffer == 3)
        assert attach(segment.name, 100) is None


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
