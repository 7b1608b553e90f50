"""Mutated frames cost an answer or a connection, and change nothing they may not."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.fuzz.channels import Forgery
from tests.fuzz.frames import Fuzz
from tests.fuzz.shards import ShardWorld
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.rows import payload
from tos_notebook.transport import auth, shared
from tos_notebook.wire import packed

COUNT = 20_000
SIDES = (
    *("server: Reply", "server: RemoteProtocolError", "client: accepted"),
    *("shard: Proceed", "shard: RemoteProtocolError"),
)


@pytest.fixture(autouse=True)
def no_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "PROCESSES", str(tmp_path / "none"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_mutated_frames_are_refused_or_change_what_a_worker_may() -> None:
    fuzz = Fuzz(seed=0)
    fuzz.run(0, COUNT)
    assert sum(fuzz.counts.values()) >= COUNT * 0.9
    for side in SIDES:
        assert fuzz.counts[side] > 100


# -- the fuzzer finds what it looks for ----------------------------------------------------


def _fails(text: str) -> None:
    with pytest.raises(AssertionError, match=text) as caught:
        Fuzz(seed=0).run(0, 3000)
    assert isinstance(caught.value.__cause__, Exception)


def test_a_merge_that_nobody_was_told_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Center.read

    def corrupt(self: Any, out: Any = None, patience: float | None = None) -> Any:
        self.center[0] ^= 1
        return read(self, out, patience)

    fuzz = Fuzz(seed=0)
    monkeypatch.setattr(Center, "read", corrupt)
    with pytest.raises(AssertionError, match="the center changed") as caught:
        fuzz.run(0, 3000)
    assert isinstance(caught.value.__cause__, Forgery)


def test_an_error_of_another_s_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_length", lambda *_: KeyError("not ours"))
    _fails("KeyError")


def test_rows_that_a_shard_takes_unchecked_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unchecked(data: Any, rows: int) -> Any:
        return np.minimum(data.view(np.uint32).astype(np.int64), rows - 1)

    monkeypatch.setattr(payload, "_numbers", unchecked)
    world, random = ShardWorld(0), Random(0)

    def serve() -> None:
        for _ in range(3000):
            world.serve(random)

    with pytest.raises(Forgery, match="were merged"):
        serve()


def test_a_client_that_is_let_in_without_a_proof_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth.hmac, "compare_digest", lambda *_: True)
    _fails("let in although")
