"""What becomes of optimizer slots, from worker to server and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.numpy_program import Counting, Momentum
from tests.worker.conftest import Serve
from tests.worker.support import Aside, Served, counting_training, join, numbers, of
from tos_notebook.combiners import FedAvg
from tos_notebook.coordination.coordinator import Training
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.events import MilestoneCommitted
from tos_notebook.steering.sync import as_sync
from tos_notebook.strategies.ps.optimizer_state import SlotMean
from tos_notebook.transport.base import Connection
from tos_notebook.wire.messages import Blend, Blended

KINDS = pytest.mark.parametrize("kind", ["inproc", "tcp"])
LAYOUT = Momentum().spec.slots
assert LAYOUT is not None


def merging(**options: Any) -> tuple[Training, list[Any]]:
    """Return a run of the program with momentum, which merges slots, and its events."""
    assert LAYOUT is not None
    return counting_training(program=Momentum(), slots=SlotMean(LAYOUT), **options)


def vector(momentum: float) -> Any:
    assert LAYOUT is not None
    return LAYOUT.pack([np.array(momentum)])


def blended(connection: Connection, momentum: float) -> float:
    """Send a momentum by hand; return the one to go on with."""
    answer, payload = connection.request(Blend(True), vector(momentum))
    assert answer == Blended()
    assert payload is not None
    return float(np.frombuffer(payload, np.float64)[0])


def mean_of(training: Training) -> float:
    held = vector(0.0)
    assert training.slots is not None
    assert training.slots.read(held)
    return float(held.view(np.float64)[0])


def second(served: Served) -> Connection:
    """Let another worker join, which only the test moves."""
    connection = served.connect()
    connection.request(join(1, 1))
    return connection


def test_kept_slots_go_on_through_exchanges(serve: Serve) -> None:
    program = Momentum()
    serve(counting_training(rows=4, program=program)[0]).work(program, blocks=[(numbers(4),)])
    assert program.begun == [0, 1, 2.5, 4.25]


def test_reset_slots_begin_each_stretch_between_exchanges_anew(serve: Serve) -> None:
    program = Momentum()
    program.momentum[:] = 7  # of an attempt that died in this process
    training, _ = counting_training(rows=6, program=program, sync_interval=2, epochs=2)
    serve(training).work(program, blocks=[(numbers(6),)], slots="reset")
    assert program.begun == [0] * 6
    assert program.momentum[0] == 0


@KINDS
@pytest.mark.parametrize("sync", ["asp", "bsp"])
def test_merged_slots_of_one_worker_are_kept_to_the_bit(serve: Serve, kind: str, sync: str) -> None:
    begun = []
    for policy in ("keep", "merge"):
        program = Momentum()
        training, _ = merging(rows=9, epochs=2, sync=as_sync(sync))
        served = serve(training, kind)
        served.work(program, blocks=[(numbers(9) / 3,)], slots=policy)
        begun.append(program.begun)
    assert begun[0] == begun[1]


@KINDS
@pytest.mark.parametrize("codec", ["fp32", "fp16"])
def test_merged_slots_of_two_workers_follow_the_closed_form(
    serve: Serve, kind: str, codec: str
) -> None:
    """One trains, the other sends its slots by hand before each of the first one's batches."""
    from tos_notebook.codecs.pair import as_codecs

    training, _ = merging(rows=4, partitions=2, codec=as_codecs(codec))
    served = serve(training, kind)
    other = second(served)
    program = Momentum()
    means: list[float] = []

    def pull(number: int) -> None:
        expected = 6.0
        if number:
            held = mean_of(training)
            # The worker goes on with what the server holds.
            assert program.begun[-1] == held
            expected = held + (10 * number - held) / 2
        means.append(blended(other, 10.0 * number or 6.0))
        assert means[-1] == mean_of(training) == expected

    program.on_batch = pull
    served.work(program, blocks=[(numbers(4),)], slots="merge")
    # What it sent is its momentum after the row, of which it gets the mean with the server's.
    momentum, expected = 0.0, []
    for row, mean in zip(range(1, 5), means, strict=True):
        own = momentum / 2 + row
        momentum = mean + (own - mean) / 2
        expected.append(momentum)
    assert [*program.begun[1:], program.momentum[0]] == expected


def test_workers_that_wait_for_each_other_merge_without_holding_each_other_up(
    serve: Serve,
) -> None:
    training, _ = merging(rows=6, partitions=2, epochs=3, sync=as_sync("bsp"), combiner=FedAvg())
    served = serve(training)
    programs = [Momentum(), Momentum()]
    asides = [
        Aside(
            lambda p=program, n=number: served.work(  # type: ignore[misc]
                p, n, n, blocks=[(numbers(6) + n,)], slots="merge"
            )
        )
        for number, program in enumerate(programs)
    ]
    for aside in asides:
        aside.result()
    assert all(0 < m < 14 for program in programs for m in program.begun[1:])
    assert mean_of(training) in [program.momentum[0] for program in programs]


def test_slots_with_nan_spoil_nobodys_and_are_healed_by_the_others(serve: Serve) -> None:
    training, _ = merging(rows=2, partitions=2)
    served = serve(training)
    other = second(served)
    # Before anybody has sent some there is nothing to be healed by.
    assert other.request(Blend(False)) == (Blended(), None)
    assert blended(other, 4.0) == 4
    program = Momentum()
    program.on_batch = lambda number: program.momentum.fill(np.nan if number == 0 else 1.0)
    broken: list[float] = []
    original = program.step

    def step(parameters: Any, batch: Any) -> dict[str, float]:
        found = original(parameters, batch)
        broken.append(float(program.momentum[0]))
        parameters["total"][...] = 0
        return found

    program.step = step  # type: ignore[method-assign]
    served.work(program, blocks=[(numbers(2),)], slots="merge")
    assert np.isnan(broken[0])
    assert program.begun[1] == 4
    assert mean_of(training) == 4 + (2.5 - 4) / 2


def test_an_attempt_whose_place_was_taken_gets_the_mean_and_changes_nothing(serve: Serve) -> None:
    training, _ = merging(rows=2, partitions=2)
    served = serve(training)
    other, late = second(served), served.connect()
    assert blended(other, 4.0) == 4
    late.request(join(1, 2))
    assert blended(other, 100.0) == 4
    assert blended(late, 8.0) == 8  # alone


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_slots_that_a_worker_wrongly_calls_finite_change_nothing(
    serve: Serve, broken: float
) -> None:
    training, _ = merging(partitions=2)
    other = second(serve(training))
    assert blended(other, 4.0) == 4
    assert blended(other, broken) == 4
    assert mean_of(training) == 4


@KINDS
def test_merged_slots_count_as_traffic_of_the_next_milestone(serve: Serve, kind: str) -> None:
    training, events = merging(rows=3)
    program = Momentum()
    serve(training, kind).work(program, blocks=[(numbers(3),)], slots="merge")
    size, slots = program.spec.layout.nbytes, 8
    milestones = of(MilestoneCommitted, events)
    assert [m.bytes_up for m in milestones] == [size, size + slots, size + slots]
    assert [m.bytes_down for m in milestones] == [size, size + slots, size + slots]


@pytest.mark.parametrize(
    ("message", "nbytes", "expected"),
    [(Blend(True), 4, "8 bytes, got 4"), (Blend(False), 8, "0 bytes, got 8")],
)
def test_slots_of_another_size_are_refused(
    serve: Serve, message: Blend, nbytes: int, expected: str
) -> None:
    connection = second(serve(merging(partitions=2)[0]))
    with pytest.raises(RemoteProtocolError, match=expected):
        connection.request(message, np.zeros(nbytes, np.uint8))


def test_slots_are_refused_where_a_run_does_not_merge_them(serve: Serve) -> None:
    connection = second(serve(counting_training(partitions=2)[0]))
    with pytest.raises(RemoteProtocolError, match="does not merge optimizer slots"):
        connection.request(Blend(True), vector(1.0))


def test_a_worker_that_keeps_its_slots_sends_none_and_needs_none(serve: Serve) -> None:
    """As every program without slots."""
    training, events = counting_training(rows=2)
    serve(training).work(Counting(), blocks=[(numbers(2),)])
    assert {m.bytes_up for m in of(MilestoneCommitted, events)} == {training.store.layout.nbytes}
