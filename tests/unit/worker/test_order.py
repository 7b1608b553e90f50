"""What a worker trains, and that it is the same over every transport."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting, SoftmaxRegression, digits
from tests.support.threads import Aside
from tests.unit.worker.support import center, counting_training, numbers, of
from tos_notebook.blocks.block import epoch_order
from tos_notebook.combiners import Downpour, DynSGD
from tos_notebook.events import EpochFinished, MilestoneCommitted, WorkerJoined, WorkerLost
from tos_notebook.transport import shared

WAYS = ["inproc", "inproc, shared", "tcp", "tcp, shared"]

LAYOUTS = [
    pytest.param(10, 3, 2, id="a smaller last batch"),
    pytest.param(12, 3, 3, id="the interval does not divide the batches"),
    pytest.param(12, 3, 2, id="everything divides"),
    pytest.param(2, 5, 4, id="fewer rows than a batch"),
    pytest.param(7, 1, 100, id="the whole epoch at once"),
]


@pytest.fixture(params=WAYS)
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A transport, with shared memory or without."""
    kind, _, memory = request.param.partition(", ")
    if not memory:
        monkeypatch.setattr(shared, "PROCESSES", "/nowhere")
    return str(kind)


def _expected(rows: int, batch: int, epochs: int, shuffle: bool, partition: int = 0) -> list[Any]:
    orders = [epoch_order(rows, 5, epoch, partition, shuffle) for epoch in range(epochs)]
    return [
        numbers(rows)[order[i : i + batch]].tolist()
        for order in orders
        for i in range(0, rows, batch)
    ]


@pytest.mark.parametrize(("rows", "batch", "interval"), LAYOUTS)
@pytest.mark.parametrize("shuffle", [True, False], ids=["shuffled", "in order"])
def test_every_batch_of_every_epoch_is_trained_in_the_documented_order(
    serve: Any, way: str, rows: int, batch: int, interval: int, shuffle: bool
) -> None:
    training, events = counting_training(epochs=3, sync_interval=interval)
    program = Counting()
    blocks = [(part,) for part in np.array_split(numbers(rows), 3)]
    serve(training, way).work(program, blocks=blocks, batch_size=batch, shuffle=shuffle, seed=5)

    assert [b[0].tolist() for b in program.batches] == _expected(rows, batch, 3, shuffle)
    assert center(training) == {"total": 3 * numbers(rows).sum(), "rows": 3 * rows}
    pushed = [(e.epoch, e.steps, e.samples) for e in of(MilestoneCommitted, events)]
    batches = -(-rows // batch)
    steps = [min(interval, batches - i) for i in range(0, batches, interval)]
    assert [p[:2] for p in pushed] == [(epoch, s) for epoch in range(3) for s in steps]
    assert sum(p[2] for p in pushed) == 3 * rows
    assert [e.samples for e in of(EpochFinished, events)] == [rows] * 3
    assert not of(WorkerLost, events)


def test_rows_that_the_driver_holds_give_the_same_result_as_blocks(serve: Any, way: str) -> None:
    x, y = digits(50)
    results = []
    for columns, blocks in ((2, ()), (0, [(x[:20], y[:20]), (x[20:], y[20:])])):
        training, _ = counting_training(
            program=SoftmaxRegression(), columns=(x, y), epochs=2, sync_interval=3
        )
        served = serve(training, way)
        served.work(SoftmaxRegression(), columns=columns, blocks=blocks, batch_size=7, shuffle=True)
        results.append(training.store.read()[0])
    np.testing.assert_array_equal(*results)
    assert results[0].any()


def test_a_partition_without_rows_is_fetched_and_finished(serve: Any, way: str) -> None:
    training, events = counting_training(partitions=3, rows=2, epochs=2)
    served = serve(training, way)
    for partition in range(3):
        served.work(Counting(), partition, task=partition, columns=1)
    assert center(training) == {"total": 2 * 3.0, "rows": 4}
    assert [e.samples for e in of(EpochFinished, events)] == [2, 2]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("combiner", [Downpour(), DynSGD()], ids=repr)
@pytest.mark.parametrize("interval", [1, 4])
def test_one_worker_is_local_training(
    serve: Any, way: str, dtype: str, combiner: Any, interval: int
) -> None:
    """Up to one rounding of `c + (w - b)` for each milestone, as `Downpour` documents."""
    x, y = digits(60)
    x = x.astype(dtype)
    local = SoftmaxRegression(dtype=dtype)
    training, _ = counting_training(
        program=local, columns=(x, y), epochs=4, combiner=combiner, sync_interval=interval
    )
    remote = SoftmaxRegression(dtype=dtype)
    serve(training, way).work(
        remote, blocks=[(x, y)], batch_size=8, shuffle=True, seed=5, columns=0
    )

    layout = local.spec.layout
    buffer = layout.allocate()
    vectors = layout.vectors(buffer)
    for epoch in range(4):
        order = epoch_order(60, 5, epoch, 0, True)
        layout.pack(local.train(vectors, (x[order], y[order]), 8).parameters, buffer)
    trained = layout.vectors(training.store.read()[0])
    milestones = 4 * -(-8 // interval)
    tolerance = 4 * milestones * np.finfo(dtype).eps
    for mine, theirs in zip(trained, vectors, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    assert local.train(vectors, (x, y), 60).values["accuracy"] > 0.8


def test_two_workers_together_apply_every_batch_once(serve: Any, way: str) -> None:
    training, events = counting_training(partitions=2, rows=101, epochs=3, sync_interval=2)
    served = serve(training, way)
    workers = [
        Aside(
            lambda p=partition: served.work(
                Counting(), p, task=p, columns=1, batch_size=4, shuffle=True
            )
        )
        for partition in range(2)
    ]
    for worker in workers:
        worker.result()
    assert center(training) == {"total": 3 * numbers(101).sum(), "rows": 303}
    assert [e.samples for e in of(EpochFinished, events)] == [101] * 3
    assert sorted(e.version for e in of(MilestoneCommitted, events)) == list(
        range(1, training.store.version + 1)
    )
    assert [e.epoch for e in of(WorkerJoined, events)] == [0, 0]


def test_segments_have_no_name_once_the_worker_trains(serve: Any, shared_memory: Path) -> None:
    training, _ = counting_training(rows=1)
    program = Counting()
    found: list[Any] = []
    program.on_batch = lambda number: found.append(list(shared_memory.iterdir()))
    serve(training, "tcp").work(program, columns=1)
    assert found == [[]]
