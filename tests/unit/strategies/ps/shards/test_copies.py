"""Shards write what they have of a checkpoint themselves, or send it where they cannot."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.threads import LIMIT, Aside
from tests.unit.strategies.ps.shards.test_parameters import LAYOUT, filled, onward, sharded
from tos_notebook.cluster.arrow_storage import ArrowStorage
from tos_notebook.combiners import FedAdam
from tos_notebook.errors import CheckpointError, ClusterUnreachable, TosError, WaitTimeout
from tos_notebook.persist.parts import PartPlace, digest, joined, read_part
from tos_notebook.persist.sealed import Sealed
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Copied, Push
from tos_notebook.strategies.ps.shards import copies
from tos_notebook.strategies.ps.shards.copies import ShardedCopy
from tos_notebook.strategies.ps.shards.parameters import ShardedParameters
from tos_notebook.strategies.ps.shards.slices import stripe_lengths
from tos_notebook.strategies.ps.strategy import ParameterServer


@pytest.fixture
def folder(tmp_path: Path) -> ArrowStorage:
    return ArrowStorage(tmp_path / "run")


def _place(folder: ArrowStorage) -> PartPlace:
    folder.write_new("owner", b"me")
    return PartPlace(folder.uri, "part-00000001", "owner", digest(b"me"))


def _trained() -> Copied:
    """Return parameters that a combiner has changed, and what it keeps of them."""
    center = Center(LAYOUT, filled(1), FedAdam(), stripe_lengths(LAYOUT, 1 << 20))
    center.merge(filled(2), Push(0, 0, 1, 1, 1, "delta"))
    return center.snapshot()


def _apart(parameters: ShardedParameters) -> ShardedCopy:
    copied = parameters.copy_apart(lambda: None)
    assert isinstance(copied, ShardedCopy)
    return copied


def _read(folder: ArrowStorage, copied: ShardedCopy) -> Copied:
    """Write a copy in parts; return it as it is read again."""
    strategy = ParameterServer(shards=3)
    parts = copied.write(_place(folder))
    value, arrays = strategy.to_parts(copied)
    assert arrays == []
    trained = {**value, "parts": [list(part) for part in parts]}
    found = joined(
        Sealed({}, json.loads(json.dumps(trained)), []), [read_part(folder, p) for p in parts]
    )
    return strategy.from_parts(found.value, found.arrays)


def _same(one: Copied, other: Copied) -> None:
    np.testing.assert_array_equal(one.center, other.center)
    assert (one.version, one.state["stripes"]) == (other.version, other.state["stripes"])
    for mine, others in zip(one.arrays, other.arrays, strict=True):
        np.testing.assert_array_equal(mine, others)


@pytest.mark.parametrize("count", [1, 3])
def test_what_shards_have_written_is_what_they_send(folder: ArrowStorage, count: int) -> None:
    """And another number of shards, or the driver alone, continues with it."""
    with sharded(FedAdam(), [], count) as parameters:
        parameters.restore(_trained())
        parameters.serve(onward)
        copied = _apart(parameters)
        parameters.load(filled(9))
        read = _read(folder, copied)
        assert folder.list() == ["owner", *(f"part-00000001-{n:04d}.tos" for n in range(count))]
        _same(read, copied.fetch())
        copied.release()
        copied.release()
    _same(read, _trained())
    with sharded(FedAdam(), [], 2) as parameters:
        parameters.restore(read)
        parameters.serve(onward)
        _same(parameters.copy(lambda: None), read)
    center = Center(LAYOUT, filled(0), FedAdam(), stripe_lengths(LAYOUT, 1 << 20))
    center.restore(read)
    np.testing.assert_array_equal(center.center, read.center)


def test_a_folder_of_another_host_is_refused_and_not_tried_again(folder: ArrowStorage) -> None:
    with sharded(FedAdam(), []) as parameters:
        parameters.serve(onward)
        copied = _apart(parameters)
        with pytest.raises(CheckpointError, match=r"Executor host \S+: .* another folder here"):
            copied.write(_place(folder)._replace(digest=digest(b"another")))
        assert folder.list() == ["owner"]
        np.testing.assert_array_equal(copied.fetch().center, filled(1))
        copied.release()
        assert isinstance(parameters.copy_apart(lambda: None), Copied)


def test_a_file_system_that_executors_do_not_have_is_refused(folder: ArrowStorage) -> None:
    with sharded(FedAdam(), []) as parameters:
        parameters.serve(onward)
        copied = _apart(parameters)
        with pytest.raises(CheckpointError, match="Cannot use 'nosuch://x' for files"):
            copied.write(_place(folder)._replace(folder="nosuch://x"))
        copied.release()


def test_a_shard_that_cannot_write_once_is_asked_again(
    folder: ArrowStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = [True]
    put = ArrowStorage._put

    def once(storage: ArrowStorage, path: str, pieces: Any) -> None:
        if full.pop():
            full.append(False)
            raise OSError(28, "No space left on device")
        full.append(False)
        put(storage, path, pieces)

    monkeypatch.setattr(ArrowStorage, "_put", once)
    with sharded(FedAdam(), [], 1) as parameters:
        parameters.serve(onward)
        copied = _apart(parameters)
        with pytest.raises(CheckpointError, match=r"Cannot write 'part-.*No space left on device"):
            copied.write(_place(folder))
        copied.release()
        assert folder.list() == ["owner"]
        again = _apart(parameters)
        assert len(again.write(_place(folder))) == 1
        again.release()


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let shards write nothing until the event is set."""
    free = threading.Event()
    put = ArrowStorage._put

    def waiting(storage: ArrowStorage, path: str, pieces: Any) -> None:
        assert free.wait(LIMIT)
        put(storage, path, pieces)

    monkeypatch.setattr(ArrowStorage, "_put", waiting)
    yield free
    free.set()


def test_others_read_while_shards_write(folder: ArrowStorage, stuck: threading.Event) -> None:
    with sharded(FedAdam(), []) as parameters:
        parameters.serve(onward)
        copied = _apart(parameters)
        writing = Aside(lambda: copied.write(_place(folder)))
        np.testing.assert_array_equal(parameters.read()[0], filled(1))
        np.testing.assert_array_equal(parameters.copy(lambda: None).center, filled(1))
        assert writing.goes_on
        stuck.set()
        assert len(writing.result()) == 2
        copied.release()


def test_shards_stay_until_their_copy_is_saved(
    folder: ArrowStorage, stuck: threading.Event
) -> None:
    """A run that ends meanwhile loses no checkpoint."""
    with sharded(FedAdam(), []) as parameters:
        parameters.serve(onward)
        copied = _apart(parameters)

        def save() -> int:
            try:
                return len(copied.write(_place(folder)))
            finally:
                copied.release()

        writing, ending = Aside(save), Aside(parameters.close)
        assert ending.goes_on
        stuck.set()
        assert writing.result() == 2
        ending.result()


def test_a_copy_is_lost_with_its_shards(folder: ArrowStorage) -> None:
    lost: list[TosError] = []
    with sharded(FedAdam(), lost) as parameters:
        parameters.serve(onward)
        copied = _apart(parameters)
        parameters.commits.group.lose(ClusterUnreachable("a host burned"))  # type: ignore[union-attr]
        for ask in (lambda: copied.write(_place(folder)), copied.fetch):
            with pytest.raises(CheckpointError, match="have ended before their copy was saved"):
                ask()
        copied.release()
        parameters.restore(Copied(filled(2), 0, {}, []))


def test_shards_that_take_too_long_are_told_to_stop(
    folder: ArrowStorage, stuck: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "WRITE", 0.0)
    with sharded(FedAdam(), [], 1) as parameters:
        parameters.serve(onward)
        copied = _apart(parameters)
        with pytest.raises(WaitTimeout, match="within 0 s; shard 1 did not"):
            copied.write(_place(folder))
        np.testing.assert_array_equal(copied.fetch().center, filled(1))
        copied.release()
        assert isinstance(parameters.copy_apart(lambda: None), Copied)
        stuck.set()
    assert not [name for name in folder.list() if name != "owner"]


@pytest.mark.parametrize(
    "spoiled",
    [
        {"version": 2},
        {"nbytes": 0},
        {"nbytes": 1 << 60},
        {"parts": []},
        {"parts": [[{"version": 1, "start": 0, "state": {}}, 0]]},
        {"parts": [[{"version": 1, "start": 4096, "state": {}}, 1]]},
        {"parts": 7},
    ],
)
def test_parts_that_do_not_make_a_whole_are_refused(spoiled: dict[str, Any]) -> None:
    whole = {
        "version": 1,
        "nbytes": LAYOUT.nbytes,
        "swaps": 0,
        "parts": [[{"version": 1, "start": 0, "state": {}}, 1]],
    }
    assert copies.joined(whole, [filled(1)]).version == 1
    with pytest.raises((TypeError, ValueError, LookupError)):
        copies.joined({**whole, **spoiled}, [filled(1)])
