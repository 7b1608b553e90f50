"""Tables that are exchanged by row: the same parameters as whole, and few bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.worker.support import join, push
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import EASGD, Combiner, DynSGD, FedAdam, FedAvg, as_combiner
from tos_notebook.common.arrays import Array
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import WorkerHandler
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.events import MilestoneCommitted, UpdateSkipped
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.machine import Command
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.rows.exchange import exchange
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.strategies.ps.trainer import ServerTrainer
from tos_notebook.transport import shared
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.inproc import InprocListener, connect_inproc
from tos_notebook.wire.messages import Loaded, Poll
from tos_notebook.worker.exchange import WorkerContext

ROWS, WIDTH = 24, 3
WORKERS = 3
STRIPE = 16
"""Bytes, so that a table has several stripes."""


def layout(by_row: bool) -> Layout:
    return Layout(
        [
            ParameterSpec("users", (ROWS, WIDTH), "float32", by_row=by_row),
            ParameterSpec("kernel", (4, 2), "float32"),
            ParameterSpec("items", (7, 5), "float64", by_row=by_row),
            ParameterSpec("mean", (2,), "float32", trained=False),
        ]
    )


class Bench:
    """A run, and workers of it in this thread; memory is shared or not."""

    def __init__(self, combiner: str | Combiner, by_row: bool, codec: str = "fp32") -> None:
        self.layout = layout(by_row)
        self.events: list[Any] = []
        self._settings = Settings(ServerSettings(as_combiner(combiner), as_codecs(codec)), 1)
        random = np.random.default_rng(0)
        values = [random.random(s.shape).astype(s.dtype) for s in self.layout.specs]
        setup = TrainerSetup(self.layout, self.layout.pack(values), self._settings)
        trainer = ParameterServer(STRIPE).trainer(setup)
        assert isinstance(trainer, ServerTrainer)
        self.trainer = trainer
        self.training = Coordinator(
            "run",
            trainer,
            self._settings,
            publish=self.events.append,
            locate=lambda task: ("executor", "?"),
            on_failure=lambda: None,
        )
        self.training.begin_span(ArraySource((np.ones(3000),), WORKERS), 0, 0)
        self.listener = InprocListener(lambda peer: WorkerHandler(lambda: self.training))
        self.listener.start()
        self.workers: dict[int, Any] = {}
        self.pushed: dict[int, int] = {}
        self._versions: dict[int, Any] = {}
        self._known: dict[int, int] = {}
        self._connections: list[ChannelConnection] = []

    def worker(self, number: int) -> Any:
        """Return a worker's side, which joins if it has not."""
        if number not in self.workers:
            connection = connect_inproc(self.listener)
            self._connections.append(connection)
            context = WorkerContext(join(number, number), new_secret())
            made = exchange(connection, self.layout, context)
            self.workers[number] = made
            joined = made.join(join(number, number))
            made.use(joined.settings)
            self._known[number] = joined.settings_version
            connection.request(Loaded(1000, "0" * 32, streamed=False))
            self._versions[number] = made.poll(Poll(joined.settings_version)).version
            self.pushed[number] = 0
        return self.workers[number]

    def adopted(self, number: int) -> dict[str, Array]:
        return self.layout.tensors(self.worker(number)._updates.adopted)

    def push(self, number: int, change: dict[str, Array]) -> None:
        """Let a worker train and push: add to some rows of tables, and to all that is dense."""
        worker, before = self.worker(number), self.adopted(number)
        trained = [
            b + np.asarray(change.get(name, 0)).astype(b.dtype) for name, b in before.items()
        ]
        finite = worker.write(trained)
        message = push(
            self.pushed[number],
            base_version=self._versions[number],
            settings_version=self._known[number],
            finite=finite,
        )
        reply = worker.push(message, lambda: None)
        self._versions[number], self._known[number] = reply.version, reply.settings_version
        if reply.settings is not None:
            worker.use(reply.settings)
        self.pushed[number] += 1

    @property
    def center(self) -> dict[str, Array]:
        return self.layout.tensors(self.trainer.parameters.center)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self.listener.close()


@contextmanager
def bench(combiner: str | Combiner, by_row: bool = True, codec: str = "fp32") -> Iterator[Bench]:
    with closing(Bench(combiner, by_row, codec)) as made:
        yield made


def change(seed: int, share: float) -> dict[str, Array]:
    """Return what a milestone changes: a share of the rows of each table, and the rest."""
    random = np.random.default_rng(seed)
    found = {}
    for spec in layout(True).specs:
        values = random.normal(size=spec.shape)
        if spec.by_row:
            values[random.random(spec.shape[0]) >= share] = 0
        found[spec.name] = values
    return found


@pytest.fixture(params=["shared", "sent"])
def memory(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "sent":
            patch.setattr(shared, "PROCESSES", "/nowhere")
        yield


PUSHES = st.lists(
    st.tuples(st.integers(0, WORKERS - 1), st.integers(0, 99), st.sampled_from([0, 0.1, 0.3, 1])),
    max_size=12,
)


def equal(one: dict[str, Array], other: dict[str, Array]) -> bool:
    return all(np.array_equal(value, other[name]) for name, value in one.items())


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
def test_a_swap_of_the_codec_leaves_no_worker_behind() -> None:
    with bench("dynsgd") as rows:
        for codec in ("fp32", "int8", "topk:0.3+ef", "fp32"):
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
