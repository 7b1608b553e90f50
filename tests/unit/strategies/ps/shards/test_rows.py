"""Tables in shards that are exchanged by row: the same parameters as whole, and few bytes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.strategies.ps.rows.support import (
    PUSHES,
    ROWS,
    WIDTH,
    WORKERS,
    bench,
    change,
    equal,
)
from tests.unit.worker.support import push
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import EASGD, Combiner, DynSGD, FedAdam, FedAvg, as_combiner
from tos_notebook.common.table_rows import TableRows
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import ClusterUnreachable, RemoteProtocolError
from tos_notebook.events import MilestoneCommitted, UpdateSkipped
from tos_notebook.steering.machine import Command
from tos_notebook.strategies.ps.rows import payload
from tos_notebook.wire.messages import Encoding

SHARDS = st.integers(1, 4)


@pytest.mark.parametrize("combiner", ["downpour", "dynsgd", "adag", "fedavg", "fedbuff"])
@settings(max_examples=4, deadline=None)
@given(shards=SHARDS, pushes=PUSHES)
def test_changes_by_row_make_the_same_parameters_as_whole_ones_in_the_driver(
    combiner: str, shards: int, pushes: list[tuple[int, int, float]]
) -> None:
    """They are to the bit, in the shards and in each worker, whatever the order of the pushes."""
    with bench(combiner, shards=shards) as rows, bench(combiner, by_row=False) as whole:
        for worker, seed, share in pushes:
            rows.push(worker, change(seed, share))
            whole.push(worker, change(seed, share))
            assert equal(rows.adopted(worker), whole.adopted(worker))
        assert equal(rows.center, whole.center)


@pytest.mark.parametrize(
    ("sync", "turns"), [("bsp", (0, 1, 2)), ("ssp:1", (0, 0, 1, 2, 1, 2))], ids=["bsp", "ssp:1"]
)
@pytest.mark.parametrize("combiner", ["fedavg", "downpour"])
@settings(max_examples=3, deadline=None)
@given(
    shards=st.integers(1, 3),
    rounds=st.lists(st.permutations(range(WORKERS)), min_size=1, max_size=3),
)
def test_workers_that_wait_get_the_rows_of_the_round(
    combiner: str, sync: str, turns: tuple[int, ...], shards: int, rounds: list[list[int]]
) -> None:
    """They continue with the parameters of whole tables in the driver, to the bit."""
    with (
        bench(combiner, shards=shards, sync=sync) as rows,
        bench(combiner, by_row=False, sync=sync) as whole,
    ):
        for worker in range(WORKERS):
            for run in (rows, whole):
                run.worker(worker)
        for number, order in enumerate(rounds):
            for run in (rows, whole):
                for seed, turn in enumerate(turns):
                    run.push(order[turn], change(10 * number + seed, 0.1))
                assert run.waiting
                for worker in sorted(run.waiting):
                    run.go_on(worker)
            for worker in order:
                assert equal(rows.adopted(worker), whole.adopted(worker))
        assert equal(rows.center, whole.center)


@pytest.mark.parametrize("combiner", ["easgd", "fedasync", "fedadam", "diloco", "delayednesterov"])
@settings(max_examples=4, deadline=None)
@given(shards=SHARDS, pushes=PUSHES)
def test_shards_merge_rows_as_the_driver_does(
    combiner: str, shards: int, pushes: list[tuple[int, int, float]]
) -> None:
    with bench(combiner, shards=shards) as rows, bench(combiner) as driver:
        for worker, seed, share in pushes:
            rows.push(worker, change(seed, share))
            driver.push(worker, change(seed, share))
            assert equal(rows.adopted(worker), driver.adopted(worker))
        assert equal(rows.center, driver.center)


@pytest.mark.parametrize("shards", [1, 3])
def test_only_rows_that_have_changed_are_sent(shards: int) -> None:
    """Both ways: those that the worker has changed, and those that others have since."""
    with bench("downpour", shards=shards) as rows:
        for worker in range(WORKERS):
            rows.worker(worker)
        few = {"users": np.zeros((ROWS, WIDTH)), "items": np.zeros((7, 5))}
        few["users"][3] = few["users"][20] = few["items"][2] = 1
        for worker in (0, 1, 2, 0, 1):
            rows.push(worker, few)
        _, *later, last = (e for e in rows.events if isinstance(e, MilestoneCommitted))
        # What a worker has got with its last push is told with its next.
        assert later[-1].bytes_down == later[-1].bytes_up == last.bytes_up
        # Heads, the dense part, and numbers and rows of each part of a table.
        one_way = 64 * shards + 2 * 64 + 2 * 64 * min(3, shards + 1)
        assert last.bytes_up <= one_way < rows.layout.nbytes


@pytest.mark.parametrize("other", ["easgd", "gapaware", "fedavg", "dynsgd"])
def test_a_swap_of_the_combiner_leaves_no_worker_behind(other: str) -> None:
    """Under another rule, and back: rows that were moved meanwhile by whole pushes come, too."""
    with bench("dynsgd", shards=2) as rows:
        for seed in range(4):
            rows.push(seed % 2, change(seed, 0.1))
        for name in (other, "dynsgd"):
            rows.training.change_settings(Command.SET, "", combiner=as_combiner(name))
            # The first push of each was made for the rule before.
            for seed in range(6):
                rows.push(seed % 2, change(seed, 0.1))
        for worker in (0, 1):
            rows.push(worker, change(9, 0.1))
            assert equal(rows.adopted(worker), rows.center)


@pytest.mark.parametrize("codecs", ["fp32 int8 topk:0.3+ef fp32", "int8 fp32 int8 fp32"])
def test_a_swap_of_the_codec_leaves_no_worker_behind(codecs: str) -> None:
    """What updates have left out until then comes with the first one by row."""
    with bench("dynsgd", shards=3) as rows:
        for codec in codecs.split():
            rows.training.change_settings(Command.SET, "", codec=as_codecs(codec))
            for seed in range(6):
                rows.push(seed % 2, change(seed, 0.1))
        for worker in (0, 1):
            rows.push(worker, change(9, 0.1))
            assert equal(rows.adopted(worker), rows.center)


@pytest.mark.parametrize("combiner", [DynSGD(), FedAvg(3), FedAdam(k=3), EASGD(0.3)], ids=repr)
@pytest.mark.parametrize("counts", [(1, 3), (3, 2)], ids=str)
def test_another_number_of_shards_continues_in_the_middle_of_a_round(
    combiner: Combiner, counts: tuple[int, int]
) -> None:
    """Also what the combiner keeps of each row."""
    with bench(combiner, shards=counts[0]) as run:
        for worker in (0, 1, 2, 0):
            run.push(worker, change(worker, 0.1))
        copied = run.trainer.snapshot(lambda: None)
    found = []
    for shards in counts:
        with bench(combiner, shards=shards) as run:
            run.restart(copied)
            for worker in (1, 2, 1, 0):
                run.push(worker, change(worker, 0.1))
            found.append(run.center)
            assert run.trainer.parameters.version == copied.version + 4
    assert equal(*found)
    assert not equal(found[0], run.layout.tensors(copied.center))


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("combiner", ["fedavg", "delayednesterov", "easgd", "mean"])
def test_a_copy_before_an_update_is_merged_changes_nothing(combiner: str, by_row: bool) -> None:
    """It has the update merged first, as one of all active workers, as its worker would have."""
    with bench(combiner, by_row, shards=2) as rows, bench(combiner, by_row) as plain:
        for run in rows, plain:
            for number in range(WORKERS):
                run.worker(number)
        for number in range(WORKERS):
            worker = rows.worker(number)

            def collect(*message: Any, then: Any = worker._collect) -> bool:
                rows.trainer.snapshot(lambda: None)
                return bool(then(*message))

            worker._collect = collect
        for seed in range(5):
            rows.push(seed % WORKERS, change(seed, 0.1))
            plain.push(seed % WORKERS, change(seed, 0.1))
        assert equal(rows.center, plain.center)


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_an_update_that_is_not_finite_is_left_out(share: float) -> None:
    """The worker continues with the center's rows, also where it has written over all of them."""
    with bench("downpour", shards=2) as rows:
        rows.trainer._non_finite = "skip"
        for worker in (0, 1):
            rows.push(worker, change(worker, 0.1))
        spoiled = change(5, share)
        spoiled["users"][3, 1] = np.inf
        rows.push(0, spoiled)
        (skipped,) = (e for e in rows.events if isinstance(e, UpdateSkipped))
        assert "NaN or infinity" in skipped.reason
        assert equal(rows.adopted(0), rows.center)
        assert np.isfinite(rows.center["users"]).all()
        rows.push(0, change(6, 0.1))
        assert equal(rows.adopted(0), rows.center)


@pytest.mark.parametrize("ids", [[3, 3], [4, 1], [1, 24], [2**32 - 1, 2**32 - 1]])
def test_rows_that_a_shard_does_not_have_are_refused_and_change_nothing(ids: list[int]) -> None:
    with bench("downpour", shards=1) as rows:
        worker, before = rows.worker(0), rows.center
        (link,) = worker._links
        layout = link.part.layout
        users = TableRows(np.array([1, 2]), np.ones((2, WIDTH), np.float32))
        items = TableRows(np.array([], np.int64), np.ones((0, 5)))
        sent = payload.pack(layout, layout.allocate(), [users, items], shared=False)
        at = sent.tobytes().index(np.array([1, 2], np.uint32).tobytes())
        sent[at : at + 8].view(np.uint32)[:] = ids
        with pytest.raises(RemoteProtocolError, match="ascending order, each below 24"):
            link._connection.request(push(0), sent)
        assert equal(rows.center, before)
        rows.push(1, change(1, 0.1))
        assert equal(rows.adopted(1), rows.center)


@pytest.mark.parametrize("nbytes", [0, 64, 10_000])
def test_a_push_that_is_no_rows_is_refused_and_changes_nothing(nbytes: int) -> None:
    with bench("downpour", shards=2) as rows:
        worker, before = rows.worker(0), rows.center
        for link in worker._links:
            with pytest.raises(RemoteProtocolError, match=r"rows of \d tables|at most"):
                link._connection.request(push(0), bytes([255]) * nbytes)
        assert equal(rows.center, before)


def test_a_shard_expects_rows_as_they_are() -> None:
    with bench("downpour", shards=1) as rows:
        (link,) = rows.worker(0)._links
        with pytest.raises(RemoteProtocolError, match="expected 'fp32' where tables"):
            link.ask(Encoding("delta", "int8", by_row=True))


def _vanish(group: Any, *_: Any) -> Any:
    """Take the place of an order to shards, one of which turns out to be gone."""
    group.lose(ClusterUnreachable("Shard 1 of the parameters was lost."))
    raise group.error


def test_a_shard_that_is_found_gone_when_a_run_ends_leaves_the_last_copy() -> None:
    with bench("dynsgd", shards=2) as run:
        for seed in range(3):
            run.push(seed, change(seed, 0.1))
        run.training._recovery._cuts.copy()
        expected, group = run.center, run.trainer.parameters._group
        run.push(0, change(3, 0.1))
        group.command = partial(_vanish, group)
        run.training.settle()
        assert equal(run.center, expected)
        assert "ended with the last copy" in str(run.training.error)
        assert run.trainer.parameters.torn is None


def test_a_shard_that_is_found_gone_when_a_job_begins_takes_nothing_of_the_jobs_before() -> None:
    """The run cannot begin the job, and ends with the copy from after the last one."""
    with bench("dynsgd", shards=2) as run:
        for seed in range(3):
            run.push(seed, change(seed, 0.1))
        run.training._recovery._cuts.copy()
        expected, group = run.center, run.trainer.parameters._group

        group.command = partial(_vanish, group)
        with pytest.raises(ClusterUnreachable, match="Shard 1"):
            run.training.begin_span(ArraySource((np.ones(3000),), WORKERS), 1, 1)
        run.training.settle()
        assert equal(run.center, expected)
        assert "ended with the last copy" in str(run.training.error)
