"""The parameters of a run in shards: read, replaced, copied, lost, and taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tos_notebook.combiners import Downpour, FedAdam
from tos_notebook.combiners.base import Combiner
from tos_notebook.common.arrays import Buffer
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import WorkerHandler
from tos_notebook.errors import CheckpointError, ClusterUnreachable, SessionClosed, TosError
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Push
from tos_notebook.strategies.ps.shards.parameters import ShardedParameters
from tos_notebook.strategies.ps.shards.slices import stripe_lengths
from tos_notebook.testing.side_threads import SideThreads
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.inproc import InprocListener, connect_inproc

LAYOUT = Layout([ParameterSpec("w", (40,), "float64"), ParameterSpec("n", (3,), "int64")])


def filled(value: float) -> Buffer:
    buffer = LAYOUT.allocate()
    for tensor in LAYOUT.tensors(buffer).values():
        tensor[...] = value
    return buffer


def _none() -> Coordinator:
    raise SessionClosed("There is no run.")


@contextmanager
def sharded(
    combiner: Combiner, lost: list[TosError], count: int = 2
) -> Iterator[ShardedParameters]:
    """Return parameters that threads can have; nothing of them is left afterwards."""
    before = set(threading.enumerate())
    beside = SideThreads(lambda: connect_inproc(listener), new_secret())
    listener = InprocListener(lambda peer: WorkerHandler(_none, beside.services))
    listener.start()
    parameters = ShardedParameters(
        LAYOUT, filled(1), combiner, count, 1 << 20, lambda: beside, lost.append
    )
    yield parameters
    parameters.close()
    listener.close()
    left = [t.name for t in set(threading.enumerate()) - before if "side-task" in t.name]
    assert not left


def onward() -> bool:
    return True


def _values(parameters: ShardedParameters) -> list[float]:
    return [float(v) for t in LAYOUT.tensors(parameters.read()[0]).values() for v in np.unique(t)]


def test_values_go_into_shards_and_come_back() -> None:
    with sharded(Downpour(), []) as parameters:
        assert _values(parameters) == [1, 1]
        parameters.serve(onward)
        assert len(parameters.commits.group.members()) == 2  # type: ignore[union-attr]
        assert _values(parameters) == [1, 1]
        parameters.load(filled(5))
        assert _values(parameters) == [5, 5]
        parameters.close()
        assert _values(parameters) == [5, 5]


def test_shards_start_again_with_a_copy_and_its_version() -> None:
    lost: list[TosError] = []
    with sharded(FedAdam(), lost) as parameters:
        parameters.go_on(3, None)
        parameters.serve(onward)
        copied = parameters.copy(lambda: None)
        parameters.load(filled(7))
        parameters.commits.group.lose(ClusterUnreachable("a host burned"))  # type: ignore[union-attr]
        assert [str(error) for error in lost] == ["a host burned"]
        with pytest.raises(ClusterUnreachable, match="a host burned"):
            parameters.serve(onward)
        parameters.restore(copied)
        parameters.serve(onward)
        assert _values(parameters) == [1, 1]
        assert parameters.version == 3


def test_a_copy_from_before_another_combiner_leaves_its_state_behind() -> None:
    with sharded(FedAdam(), []) as parameters:
        parameters.serve(onward)
        copied = parameters.copy(lambda: None)
        parameters.swap(Downpour(), lambda: None)
        parameters.restore(copied)
        parameters.serve(onward)
        assert _values(parameters) == [1, 1]


def test_a_copy_of_another_model_is_refused_and_changes_nothing() -> None:
    with sharded(Downpour(), []) as parameters:
        copied = parameters.copy(lambda: None)
        with pytest.raises(CheckpointError, match="Expected parameters of"):
            parameters.restore(copied._replace(center=copied.center[:8]))
        assert _values(parameters) == [1, 1]


def test_shards_that_cannot_take_what_they_are_given_are_gone() -> None:
    with sharded(FedAdam(), []) as parameters:
        parameters.serve(onward)
        copied = parameters.copy(lambda: None)
        unknown = [{"kept": [], "class": "X"} for _ in copied.state["stripes"]]
        spoiled = copied._replace(state={**copied.state, "stripes": unknown})
        parameters.restore(spoiled)
        with pytest.raises(CheckpointError):
            parameters.serve(onward)
        parameters.restore(copied)
        parameters.serve(onward)
        assert _values(parameters) == [1, 1]


def test_a_start_ends_with_the_run() -> None:
    with sharded(Downpour(), []) as parameters:
        parameters.serve(lambda: False)
        assert _values(parameters) == [1, 1]


def test_another_number_of_shards_takes_over_what_a_combiner_keeps() -> None:
    initial = filled(1)
    center = Center(LAYOUT, initial, FedAdam(), stripe_lengths(LAYOUT, 1 << 20))
    update = filled(2)
    center.merge(update, Push(0, 0, 1, 1, 1, "delta"))
    copied = center.snapshot()
    for count in (1, 3):
        with sharded(FedAdam(), [], count) as parameters:
            parameters.restore(copied)
            parameters.serve(onward)
            found = parameters.copy(lambda: None)
            np.testing.assert_array_equal(found.center, copied.center)
            assert found.version == 1
            assert found.state["stripes"] == copied.state["stripes"]
            both = zip(found.arrays, copied.arrays, strict=True)
            assert all(np.array_equal(one, other) for one, other in both)
