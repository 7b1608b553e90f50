"""Tables that are exchanged by row: the same parameters as whole, and few bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

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
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.events import MilestoneCommitted, UpdateSkipped
from tos_notebook.steering.machine import Command
from tos_notebook.transport import shared


@pytest.fixture(params=["shared", "sent"])
def memory(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "sent":
            patch.setattr(shared, "PROCESSES", "/nowhere")
        yield


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("combiner", ["downpour", "dynsgd", "adag", "fedavg", "fedbuff"])
@settings(max_examples=8, deadline=None)
@given(pushes=PUSHES)
def test_changes_by_row_make_the_same_parameters_as_whole_ones(
    combiner: str, pushes: list[tuple[int, int, float]]
) -> None:
    """They are to the bit, in the center and in each worker, whatever the order of the pushes."""
    with bench(combiner) as rows, bench(combiner, by_row=False) as whole:
        for worker, seed, share in pushes:
            rows.push(worker, change(seed, share))
            whole.push(worker, change(seed, share))
            assert equal(rows.center, whole.center)
            assert equal(rows.adopted(worker), whole.adopted(worker))


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    "combiner",
    [
        "fedasync",
        "mean",
        "updatemean",
        "fedadam",
        "diloco",
        "delayednesterov",
        "gapaware",
        "median",
    ],
)
@settings(max_examples=8, deadline=None)
@given(pushes=PUSHES)
def test_a_worker_adopts_the_center_whatever_has_changed(
    combiner: str, pushes: list[tuple[int, int, float]]
) -> None:
    with bench(combiner) as rows:
        for worker, seed, share in pushes:
            rows.push(worker, change(seed, share))
            assert equal(rows.adopted(worker), rows.center)


@pytest.mark.usefixtures("memory")
@settings(max_examples=8, deadline=None)
@given(pushes=PUSHES)
def test_an_elastic_force_pulls_the_rows_that_a_worker_has_changed(
    pushes: list[tuple[int, int, float]],
) -> None:
    with bench(EASGD(0.3)) as rows:
        for worker, seed, share in pushes:
            moved, center = change(seed, share), {k: v.copy() for k, v in rows.center.items()}
            before = {name: value.copy() for name, value in rows.adopted(worker).items()}
            rows.push(worker, moved)
            for spec in rows.layout.specs:
                name = spec.name
                trained = before[name] + moved[name].astype(spec.dtype)
                pull = (trained - center[name]) * np.dtype(spec.dtype).type(0.3)
                few: Any = (trained != before[name]).any(-1) if spec.by_row else ...
                if spec.by_row and 2 * few.sum() >= len(few):
                    few = ...
                expected = center[name].copy()
                expected[few] += pull[few]
                assert np.allclose(rows.center[name], expected, rtol=1e-6)
                kept = before[name].copy()
                kept[few] = (trained - pull)[few]
                assert np.allclose(rows.adopted(worker)[name], kept, rtol=1e-6)


@pytest.mark.usefixtures("memory")
def test_only_rows_that_have_changed_are_sent() -> None:
    """Both ways: those that the worker has changed, and those that others have since."""
    with bench("downpour") as rows:
        for worker in range(WORKERS):
            rows.worker(worker)
        few = {"users": np.zeros((ROWS, WIDTH)), "items": np.zeros((7, 5))}
        few["users"][3] = few["users"][5] = few["items"][2] = 1
        for worker in (0, 1, 2, 0, 1):
            rows.push(worker, few)
        first, *_, last = (e for e in rows.events if isinstance(e, MilestoneCommitted))
        dense = rows.layout.dense_nbytes
        one_way = dense + 64 + 2 * (64 + 64)
        assert first.bytes_up == last.bytes_up == last.bytes_down
        assert last.bytes_up <= one_way


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("other", ["median", "easgd", "gapaware", "fedavg", "dynsgd"])
def test_a_swap_of_the_combiner_leaves_no_worker_behind(other: str) -> None:
    """Under another rule, and back: rows that were moved meanwhile by whole pushes come, too."""
    with bench("dynsgd") as rows:
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


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("codecs", ["fp32 int8 topk:0.3+ef fp32", "int8 fp32 int8 fp32"])
def test_a_swap_of_the_codec_leaves_no_worker_behind(codecs: str) -> None:
    """Nor one to a codec that was used before, whose replies were differences to what was then."""
    with bench("dynsgd") as rows:
        for codec in codecs.split():
            rows.training.change_settings(Command.SET, "", codec=as_codecs(codec))
            for seed in range(6):
                rows.push(seed % 2, change(seed, 0.1))
        for worker in (0, 1):
            rows.push(worker, change(9, 0.1))
            assert equal(rows.adopted(worker), rows.center)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("combiner", [DynSGD(), FedAvg(3), FedAdam(k=3)], ids=repr)
def test_a_run_continues_from_a_copy_in_the_middle_of_a_round(combiner: Combiner) -> None:
    with bench(combiner) as first, bench(combiner) as second:
        first.push(0, change(0, 0.1))
        second.trainer.restore(first.trainer.snapshot(lambda: None))
        for worker in range(WORKERS):
            assert equal(second.adopted(worker), second.center)
            first.worker(worker)
        for worker in (1, 2, 1):
            first.push(worker, change(worker, 0.1))
            second.push(worker, change(worker, 0.1))
            assert equal(second.adopted(worker), second.center)
        for name, value in first.center.items():
            np.testing.assert_allclose(second.center[name], value, atol=1e-6)


@pytest.mark.usefixtures("memory")
def test_an_attempt_whose_settings_are_forgotten_hears_that_it_is_superseded() -> None:
    """And not that its rows have the wrong length."""
    with bench("dynsgd") as rows:
        old = rows.worker(0)
        rows.attempt(0, 7)
        for name in ("downpour", "dynsgd", "downpour"):
            rows.training.change_settings(Command.SET, "", combiner=as_combiner(name))
            rows.push(0, change(0, 0.1))
        adopted, moved = rows.layout.tensors(old._updates.adopted), change(1, 0.1)
        old.write([b + moved[name].astype(b.dtype) for name, b in adopted.items()])
        assert old.push(push(0, base_version=0), lambda: None).status == "superseded"


def test_an_update_that_is_not_finite_is_left_out_and_named() -> None:
    """The worker continues with the center's rows, also with those that it has spoiled."""
    with bench("downpour") as rows:
        rows.trainer.merging._non_finite = "skip"
        for worker in (0, 1):
            rows.worker(worker)
        spoiled = {"users": np.zeros((ROWS, WIDTH)), "items": np.zeros((7, 5))}
        spoiled["users"][3, 1] = np.inf
        rows.push(0, spoiled)
        (skipped,) = (e for e in rows.events if isinstance(e, UpdateSkipped))
        assert "'users'" in skipped.reason
        assert equal(rows.adopted(0), rows.center)
        assert np.isfinite(rows.center["users"]).all()


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("nbytes", [0, 64, 10_000])
def test_a_push_that_is_no_rows_is_refused_and_changes_nothing(nbytes: int) -> None:
    with bench("downpour") as rows:
        worker, before = rows.worker(0), rows.trainer.parameters.center.tobytes()
        with pytest.raises(RemoteProtocolError, match=r"rows of 2 tables|at most"):
            worker._connection.request(push(0), bytes([255]) * nbytes)
        assert rows.trainer.parameters.center.tobytes() == before
        assert rows.trainer.parameters.version == 0
