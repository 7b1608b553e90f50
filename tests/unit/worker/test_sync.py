"""Workers that wait for each other, over connections."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting, SoftmaxRegression, digits
from tests.support.threads import LIMIT, Aside
from tests.unit.worker.support import center, counting_training, join, numbers, of, push
from tos_notebook.archive.runner import Trained
from tos_notebook.combiners import EASGD, FedAvg
from tos_notebook.coordination.timeouts import Timeouts
from tos_notebook.data.arrays import ArraySource
from tos_notebook.events import MilestoneCommitted
from tos_notebook.steering.machine import Command
from tos_notebook.steering.sync import as_sync
from tos_notebook.wire.messages import Directive, Poll

KINDS = pytest.mark.parametrize("kind", ["inproc", "tcp", "tcp without shared memory"])

WOKEN = Timeouts(long_poll=3 * LIMIT)
"""A worker is woken, not found by a later question."""


@pytest.fixture
def transport(kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Take care of where a worker looks."""
    if "without" in kind:
        monkeypatch.setattr("tos_notebook.strategies.ps.trainer.attach", lambda name, nbytes: None)
    return kind.split()[0]


@KINDS
def test_averaged_rounds_of_one_batch_are_a_large_batch(serve: Any, transport: str) -> None:
    """Bulk-synchronous, H = 1: the center goes the way of one worker with batches 4 times as
    large."""
    x, y = digits(96)
    programs = [SoftmaxRegression() for _ in range(4)]
    training, events = counting_training(
        *(4, 3, FedAvg()), program=programs[0], columns=(x, y), sync=as_sync("bsp"), timeouts=WOKEN
    )
    served = serve(training, transport)
    together = threading.Barrier(4)
    for program in programs:
        # All have joined before the first is done: a round has four from the beginning on.
        program.on_batch = lambda number: number or together.wait(LIMIT)
    workers = [
        Aside(lambda p=p: served.work(programs[p], p, task=p, batch_size=8, columns=2))
        for p in range(4)
    ]
    for worker in workers:
        worker.result()
    rows = [ArraySource((x, y), 4).rows(p) for p in range(4)]
    alone = SoftmaxRegression()
    parameters = {name: np.zeros_like(v) for name, v in center(training).items()}
    for _ in range(3):
        for start in range(0, 24, 8):
            parts = [[c[start : start + 8] for c in found] for found in rows if found is not None]
            alone.step(parameters, tuple(np.concatenate(c) for c in zip(*parts, strict=True)))
    for name, value in center(training).items():
        np.testing.assert_allclose(value, parameters[name], rtol=1e-12, atol=1e-14)
    assert training.store.version == len(of(MilestoneCommitted, events)) == 36


@KINDS
@pytest.mark.parametrize("sync", ["bsp", "ssp:2"])
def test_every_batch_counts_once_and_nobody_gets_further_ahead(
    serve: Any, transport: str, sync: str
) -> None:
    """With partitions of different lengths, more of them than run at a time."""
    training, events = counting_training(
        partitions=5, epochs=1, rows=203, sync=as_sync(sync), timeouts=WOKEN
    )
    served = serve(training, transport)
    together = threading.Barrier(2)

    def slot(*partitions: int) -> None:
        for partition in partitions:
            program = Counting()
            if partition < 2:
                program.on_batch = lambda number: number or together.wait(LIMIT)
            served.work(program, partition, task=partition, columns=1)

    for worker in [Aside(lambda: slot(0, 2)), Aside(lambda: slot(1, 3, 4))]:
        worker.result()
    assert center(training) == {"total": numbers(203).sum(), "rows": 203}
    pushed = of(MilestoneCommitted, events)
    assert [event.version for event in pushed] == list(range(1, 204))
    # The first two begin together and have 41 rows each; a worker that is done does not wait.
    done = dict.fromkeys(range(2), 0)
    for event in pushed:
        done[event.partition] = done.get(event.partition, 0) + 1
        if 41 not in (done[0], done[1]):
            assert abs(done[0] - done[1]) <= as_sync(sync).slack + 1


class Remembering(Counting):
    """Knows the parameters that its worker was left with."""

    def train(self, vectors: Any, columns: Any, batch_size: int) -> Trained:
        self.kept = vectors[0]
        return super().train(vectors, columns, batch_size)


@KINDS
def test_who_keeps_its_own_parameters_does_so_after_waiting(serve: Any, transport: str) -> None:
    """An elastic exchange conserves w + c: all that was trained is in the three together."""
    training, events = counting_training(
        2, 1, EASGD(alpha=0.5), rows=20, sync=as_sync("bsp"), timeouts=WOKEN
    )
    served = serve(training, transport)
    programs = [Remembering(), Remembering()]
    together = threading.Barrier(2)
    for program in programs:
        program.on_batch = lambda number: number or together.wait(LIMIT)
    workers = [Aside(lambda p=p: served.work(programs[p], p, p, columns=1)) for p in range(2)]
    for worker in workers:
        worker.result()
    left = sum(float(program.kept[0]) for program in programs)
    assert left + center(training)["total"] == pytest.approx(numbers(20).sum())
    assert any(event.wait > 0 for event in of(MilestoneCommitted, events))


def test_who_waits_for_parameters_gets_them_though_the_next_rule_lets_it_keep_its_own(
    serve: Any,
) -> None:
    """Its buffer holds its last update by then, not parameters."""
    training, _ = counting_training(2, 1, FedAvg(), rows=20, sync=as_sync("bsp"))
    served = serve(training)
    first, second = served.connect(), served.connect()
    layout = training.store.layout
    for number, connection in enumerate((first, second)):
        connection.request(join(number, task=number))
    update = layout.pack({"total": np.float64(3), "rows": np.int64(1)})
    reply, payload = first.request(push(), update)
    assert (reply.directive, payload) == (Directive.WAIT, None)
    training.change_settings(Command.SWAP_COMBINER, "easgd", combiner=EASGD())
    second.request(push(), update)
    proceed, payload = first.request(Poll(0))
    assert (proceed.directive, proceed.version) == (Directive.GO, 2)
    assert len(payload) == layout.nbytes
