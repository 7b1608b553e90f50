"""Workers add to shared parameters by themselves, and the driver counts what they have added."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import ref

import numpy as np
import pytest

import tos_notebook as tos
from tests.unit.worker.support import join, push
from tos_notebook.archive.runner import Trained
from tos_notebook.blocks.block import Columns
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import Downpour, get
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.stream import Stream
from tos_notebook.errors import (
    CheckpointError,
    ConfigError,
    ConnectionClosed,
    NonFiniteUpdate,
    WorkerEnvironment,
)
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.sync import as_sync
from tos_notebook.strategies import ParameterServer, as_strategy
from tos_notebook.strategies.ps.hogwild.exchange import (
    MILESTONE,
    HogwildExchange,
    exchange,
)
from tos_notebook.strategies.ps.hogwild.parameters import SharedParameters
from tos_notebook.testing import bench as benches
from tos_notebook.testing.bench import Deadline, Trial
from tos_notebook.testing.strategies import ROWS
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.shared import attach
from tos_notebook.wire.messages import Directive, Join, Joined, Poll, Proceed, Push, Reply, Request
from tos_notebook.wire.settings import WorkerSettings
from tos_notebook.worker.batches import StreamedBatches
from tos_notebook.worker.exchange import ROOM, WorkerContext
from tos_notebook.worker.loop import Worker

LAYOUT = Layout([ParameterSpec("x", (3,), "float32"), ParameterSpec("n", (), "int64", False)])
HOGWILD = ParameterServer(locking=False)


def _center(*values: float) -> SharedParameters:
    return SharedParameters(LAYOUT, LAYOUT.pack([np.array(values, np.float32), np.array(5)]))


def _values(parameters: SharedParameters) -> list[float]:
    x, n = LAYOUT.tensors(parameters.read()[0]).values()
    return [*x.tolist(), int(n)]


class Driver:
    """A connection to a driver that answers every push by one status."""

    def __init__(self, name: str, status: str = "committed") -> None:
        self.name, self.status = name, status
        self.pushed: list[tuple[Push, Any]] = []

    def request(self, message: Request, *rest: Any) -> tuple[Any, memoryview | None]:
        match message:
            case Join():
                settings = Settings(HOGWILD.exact_settings(), 1).for_worker()
                return Joined(0, 0, 0, 0, settings, 0, Directive.WAIT, False), None
            case Poll():
                return Proceed(Directive.GO, 0, None, 0), memoryview(self.name.encode())
        assert isinstance(message, Push)
        self.pushed.append((message, rest[0]))
        rest[2]()
        status: Any = self.status
        return Reply(1, 0, status, Directive.GO, None), None


def _told(sync: str = "asp", sync_interval: int = 1) -> WorkerSettings:
    return Settings(HOGWILD.exact_settings(), sync_interval, as_sync(sync)).for_worker()


def _worker(driver: Driver, clock: Callable[[], float] = perf_counter) -> HogwildExchange:
    made: Any = driver
    worker = HogwildExchange(made, LAYOUT, clock)
    worker.join(join())
    worker.poll(Poll(0))
    return worker


class Clock:
    """Moves only when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


class Adding:
    """A program that adds the mean of each row's number to the parameters."""

    spec = SimpleNamespace(outputs=("loss",))

    def __init__(self, before: Callable[[], object] = int) -> None:
        self._before = before

    def train(self, vectors: Any, columns: Any, batch_size: int) -> Trained:
        (rows,) = columns
        self._before()
        x, n = vectors
        if (rows < 0).any():
            raise ValueError("a row below 0")
        mean = float(rows.mean())
        return Trained([x[:3] + np.float32(mean), n[0] + 1], {"loss": mean})

    def reset_optimizer_state(self) -> None:
        """It has none."""

    reset_non_finite_state = reset_optimizer_state


def _train(
    worker: HogwildExchange, *rows: float, before: Callable[[], object] = int
) -> dict[str, float]:
    runner: Any = Adding(before)
    trained = worker.train(runner, [np.array(rows or (1.0,))], 1)
    assert trained is not None
    worker.write(trained.parameters)
    return dict(trained.values)


def test_a_worker_adds_its_change_to_what_others_have_added_and_adopts_both() -> None:
    center = _center(1, 2, 3)
    driver = Driver(center.segment)
    worker = _worker(driver)
    assert worker.vectors[0][:3].tolist() == [1, 2, 3]
    _train(worker)
    assert _values(center) == [2, 3, 4, 6]
    # Another worker adds before the driver has counted this one.
    other = attach(center.segment, LAYOUT.nbytes)
    assert other is not None
    LAYOUT.vectors(other)[0][:3] += 10
    worker.push(push(), lambda: None)
    assert _values(center) == [12, 13, 14, 6]
    assert worker.vectors[0][:3].tolist() == [12, 13, 14]
    ((_, payload),) = driver.pushed
    assert payload is None


def test_a_worker_adds_after_each_interval_of_a_milestone_and_tells_their_mean() -> None:
    center = _center(0, 0, 0)
    worker = _worker(Driver(center.segment))
    worker.use(_told(sync_interval=2))
    assert _train(worker, 1, 3, 5, 7, 9) == {"loss": 5}
    # 2, 6 and 9: the last interval is what is left of an epoch.
    assert _values(center) == [17, 17, 17, 8]


@pytest.mark.parametrize("status", ["skipped", "superseded", "duplicate"])
def test_updates_that_do_not_count_are_taken_out_again(status: str) -> None:
    center = _center(1, 2, 3)
    worker = _worker(Driver(center.segment, status))
    _train(worker, 4, 5)
    assert _values(center) == [10, 11, 12, 7]
    worker.push(push(), lambda: None)
    assert _values(center) == [1, 2, 3, 5]


def test_an_update_that_is_not_finite_is_never_added_and_ends_a_milestone_of_its_own() -> None:
    center = _center(1, 2, 3)
    worker = _worker(Driver(center.segment, "skipped"))
    runner: Any = Adding()
    assert worker.train(runner, [np.array([4, np.nan, 5])], 1) is None
    assert (worker.again, worker.rounds) == (True, 1)
    assert _values(center) == [1, 2, 3, 5]
    _train(worker, 4)
    assert not worker.again
    assert _values(center) == [5, 6, 7, 6]
    trained = worker.train(runner, [np.array([np.nan])], 1)
    assert trained is not None
    assert not worker.write(trained.parameters)
    worker.push(push(finite=False), lambda: None)
    assert _values(center) == [5, 6, 7, 6]
    assert worker.vectors[0][:3].tolist() == [5, 6, 7]


class Momentum(Adding):
    """Adds half of the earlier change, too, and knows whether what it returned is still held."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[Any] = []
        self.state = 0.0
        self.copied = 0

    def train(self, vectors: Any, columns: Any, batch_size: int) -> Trained:
        self.copied += any(held() is not None for held in self._held)
        _, n = super().train(vectors, columns, batch_size).parameters
        self.state = self.state / 2 + float(columns[0].mean())
        new = vectors[0][:3] + np.float32(self.state)
        self._held = [ref(new)]
        return Trained([new, n], {"loss": self.state})

    def reset_optimizer_state(self) -> None:
        self.state = 0.0

    def reset_non_finite_state(self) -> None:
        if not np.isfinite(self.state):
            self.reset_optimizer_state()


def test_an_optimizer_that_has_seen_what_is_not_finite_forgets_it_before_all_is_trained_again() -> (
    None
):
    """Else the rows that come first would be blamed for it."""
    center = _center(0, 0, 0)
    worker = _worker(Driver(center.segment))
    runner: Any = Momentum()
    assert worker.train(runner, [np.array([4, np.nan])], 1) is None
    assert worker.train(runner, [np.array([4.0])], 1) is not None
    assert _values(center) == [4, 4, 4, 6]


@pytest.mark.parametrize(("resets", "total"), [(False, 13), (True, 9)])
def test_optimizer_state_is_kept_or_reset_whenever_a_worker_adopts_what_others_added(
    resets: bool, total: int
) -> None:
    center = _center(0, 0, 0)
    made: Any = Driver(center.segment)
    runner: Any = Momentum()
    worker = exchange(made, LAYOUT, WorkerContext(join(), new_secret(), resets=resets))
    worker.poll(Poll(0))
    worker.train(runner, [np.array([4.0, 2.0, 3.0])], 1)
    assert _values(center) == [total, total, total, 8]


def test_a_program_need_not_copy_what_it_has_returned_before() -> None:
    center = _center(0, 0, 0)
    worker = _worker(Driver(center.segment))
    runner: Any = Momentum()
    worker.train(runner, [np.array([4.0, 2.0, 3.0])], 1)
    assert _values(center) == [13, 13, 13, 8]
    assert runner.copied == 0


def test_a_program_that_fails_leaves_nothing_of_its_milestone() -> None:
    center = _center(1, 2, 3)
    worker = _worker(Driver(center.segment))
    with pytest.raises(ValueError, match="below 0"):
        _train(worker, 4, 5, -1)
    assert _values(center) == [1, 2, 3, 5]


def test_a_milestone_grows_to_its_time_and_shrinks_with_a_slower_program() -> None:
    clock, center = Clock(), _center(0, 0, 0)
    worker = _worker(Driver(center.segment), clock)
    seconds = MILESTONE / 32
    found = []
    for _ in range(4):
        _train(worker, *range(worker.rounds), before=lambda: clock.wait(seconds))
        found.append(worker.rounds)
    assert found == [2, 4, 8, 16]
    # What is left of an epoch says as much.
    _train(worker, 1, before=lambda: clock.wait(seconds))
    assert worker.rounds > 16
    seconds = MILESTONE / 4.5
    _train(worker, *range(worker.rounds), before=lambda: clock.wait(seconds))
    assert worker.rounds == 4
    # The sync mode counts milestones, so that these have one length.
    worker.use(_told(sync="ssp:3"))
    assert worker.rounds == 1
    _train(worker)
    assert worker.rounds == 1


class Late:
    """A parameter's new values, which take a second to read."""

    def __init__(self, value: Any, clock: Clock) -> None:
        self._value, self._clock = value, clock

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._clock.wait(1.0)
        return np.asarray(self._value)


def test_the_time_in_which_a_worker_adds_is_that_of_an_exchange() -> None:
    """`sync_interval="auto"` and the advice of a run compare both."""
    clock = Clock()

    class Slow(Adding):
        def train(self, vectors: Any, columns: Any, batch_size: int) -> Trained:
            clock.wait(3.0)
            trained = super().train(vectors, columns, batch_size)
            x, n = trained.parameters
            late: Any = Late(n, clock)
            return Trained([x, late], trained.values)

    center = _center(0, 0, 0)
    driver = Driver(center.segment)
    worker, runner = _worker(driver, clock), Slow()
    worker.train(runner, [np.array([1.0, 1.0])], 1)  # type: ignore[arg-type]
    worker.push(push(compute=8.0, exchange=0.5), lambda: None)
    ((message, _),) = driver.pushed
    assert (message.compute, message.exchange) == (6.0, 2.5)


def test_a_milestone_counts_the_time_in_which_its_rows_come() -> None:
    """Else a worker with a fast program and slow data would train nothing for long."""
    clock, center = Clock(), _center(0, 0, 0)
    worker = _worker(Driver(center.segment), clock)
    found = []
    for seconds in (0.0, 0.0, MILESTONE, 8 * MILESTONE):
        _train(worker, *range(worker.rounds))
        found.append(worker.rounds)
        worker.push(push(), lambda seconds=seconds: clock.wait(seconds))  # type: ignore[misc]
    _train(worker, *range(worker.rounds))
    assert [*found, worker.rounds] == [2, 4, 8, 8, 1]


def test_a_milestone_takes_no_more_rows_than_there_is_room_for() -> None:
    clock, center = Clock(), _center(0, 0, 0)
    worker, runner = _worker(Driver(center.segment), clock), Adding()
    # They take no memory.
    rows = np.broadcast_to(np.float64(1.0), (8, ROOM // 8 // 8))
    worker.rounds = 4
    worker.train(runner, [rows[:4]], 1)  # type: ignore[arg-type]
    assert worker.rounds == 8
    worker.train(runner, [rows], 1)  # type: ignore[arg-type]
    assert worker.rounds == 8


def test_a_worker_that_cannot_open_the_memory_says_what_to_choose_instead() -> None:
    center = _center(1, 2, 3)
    center.close()
    with pytest.raises(WorkerEnvironment, match=r"driver's host.*Train with locking=True"):
        _worker(Driver(center.segment))


def test_a_host_without_shared_memory_is_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*given: Any) -> int:
        raise OSError("no memory")

    monkeypatch.setattr(os, "memfd_create", refused)
    with pytest.raises(ConfigError, match=r"expected 72 bytes of memory.*locking=True"):
        _center(1, 2, 3)


def test_nothing_is_left_open_and_late_workers_change_nothing() -> None:
    def memories() -> int:
        links = [
            str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()
        ]
        return sum("memfd:tos-" in link for link in links)

    before = memories()
    center = _center(1, 2, 3)
    late = attach(center.segment, LAYOUT.nbytes)
    assert late is not None
    assert memories() > before
    assert center.close() is None
    late[:] = 0
    assert _values(center) == [1, 2, 3, 5]
    forgotten = _center(1, 2, 3)
    del forgotten, late
    assert memories() == before


def test_a_copy_continues_and_one_that_is_not_finite_is_refused() -> None:
    center = _center(1, 2, 3)
    center.count()
    seen: list[int] = []
    copied = center.snapshot(lambda: seen.append(center.version))
    assert seen == [1]
    other = _center(0, 0, 0)
    other.restore(copied)
    assert (_values(other), other.version) == ([1, 2, 3, 5], 1)
    with pytest.raises(CheckpointError, match="Expected parameters of 72 bytes"):
        other.restore(copied._replace(center=np.zeros(8, np.uint8)))
    other.load(LAYOUT.pack([np.full(3, np.inf, np.float32), np.array(1)]))
    with pytest.raises(CheckpointError, match="hold NaN or infinity"):
        other.snapshot(lambda: None)
    assert isinstance(other.close(), NonFiniteUpdate)


class _CutsBefore:
    """A connection that breaks when a push is to be sent."""

    lost: ClassVar[list[tuple[int, int]]] = []
    """The first row that was added and not counted, and how many."""

    def __init__(self, connection: Any, number: int) -> None:
        self._connection, self._left, self._rows = connection, number, 0

    def request(self, message: Any, *rest: Any, **named: Any) -> Any:
        if isinstance(message, Push):
            self._left -= 1
            if self._left < 0:
                self.lost.append((self._rows, message.samples))
                self._connection.abort()
                raise ConnectionClosed("The test has cut the connection.")
            self._rows += message.samples
        return self._connection.request(message, *rest, **named)

    def close(self) -> None:
        self._connection.close()

    abort = close


def test_what_a_lost_worker_has_added_uncounted_is_there_twice_and_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(benches, "_Breaking", _CutsBefore)
    monkeypatch.setattr(_CutsBefore, "lost", [])
    with Trial(HOGWILD, Deadline(20.0)).bench() as bench:
        bench.begin((ROWS,), 1, range(1))
        bench.work(lose=3)
        ((first, count),) = _CutsBefore.lost
        # The first milestones have one row, two and four.
        assert count > 1
        assert bench.rows_told() == len(ROWS)
        twice = ROWS[first : first + count].sum()
        assert bench.values() == {"total": ROWS.sum() + twice, "rows": len(ROWS) + count}


def _lenient(non_finite: Any) -> ParameterServer:
    class Lenient(ParameterServer):
        def trainer(self, setup: Any) -> Any:
            return ParameterServer.trainer(self, replace(setup, non_finite=non_finite))

    return Lenient(locking=False)


@pytest.mark.parametrize("non_finite", ["raise", "skip"])
def test_a_milestone_that_is_not_finite_ends_the_run_or_is_left_out(non_finite: Any) -> None:
    rows = ROWS.copy()
    rows[3] = np.nan

    with Trial(_lenient(non_finite), Deadline(20.0)).bench() as bench:
        bench.begin((rows,), 1, range(1))
        if non_finite == "raise":
            with pytest.raises(AssertionError, match="nan"):
                bench.work()
        else:
            bench.work()
            assert bench.values() == {"total": ROWS.sum() - 4, "rows": len(ROWS) - 1}


def test_a_stream_is_not_made_again_for_a_milestone_that_is_trained_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would have to make all rows of the epoch up to there."""
    made = []

    class Once(Stream):
        def batches(self, epoch: int, seed: int, batch_size: int) -> Iterator[Columns]:
            made.append(epoch)
            for row in ROWS:
                yield (np.array([np.nan if row in (2, 40) else row]),)

    def load(*given: Any) -> StreamedBatches:
        return StreamedBatches(Once(lambda context: None, 0, 1, (), ()), 0, 1)

    monkeypatch.setattr(Worker, "__init__", partialmethod(Worker.__init__, load=load))
    with Trial(_lenient("skip"), Deadline(20.0)).bench() as bench:
        bench.begin((ROWS,), 1, range(1))
        bench.work()
        assert bench.values() == {"total": ROWS.sum() - 2 - 40, "rows": len(ROWS) - 2}
    assert made == [0]


# -- what it can be combined with ----------------------------------------------------------


def test_it_is_chosen_by_name_and_option_and_adds_by_default() -> None:
    strategy = as_strategy("ps:locking=false")
    assert strategy == HOGWILD
    assert isinstance(strategy.default_combiner(as_sync("asp")), Downpour)
    settings = strategy.settings(Downpour(), as_codecs("fp32"))
    assert settings.shown()["locking"] is False
    assert "locking" not in as_strategy("ps").exact_settings().shown()
    saved = strategy.settings_to_json(settings)
    assert strategy.settings_from_json(saved).locking is False


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ParameterServer(shards=2, locking=False), "locking: expected True with shards=2"),
        (lambda: ParameterServer(locking="no"), "locking: expected True or False, got 'no'"),  # type: ignore[arg-type]
        (lambda: as_strategy("ps:locking=maybe"), "expected 'ps', 'ps:locking=false' or"),
        (lambda: _settings(combiner="dynsgd"), "combiner: expected downpour .* Choose downpour"),
        (lambda: _settings(codec="int8"), "codec: expected 'fp32' with locking=False"),
        (lambda: _settings(sync="bsp"), "sync: expected 'asp' or 'ssp:N' with locking=False"),
    ],
)
def test_what_does_not_go_together_is_refused(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def _settings(combiner: str = "downpour", codec: str = "fp32", sync: str = "asp") -> Settings:
    own = HOGWILD.settings(get(combiner), as_codecs(codec))
    return Settings(own, 1, as_sync(sync))


def test_a_change_to_another_combiner_is_refused_in_mid_run() -> None:
    with pytest.raises(ConfigError, match=r"strategy='ps'"):
        _settings().changed(combiner=get("easgd"))


@pytest.mark.parametrize("sync", ["asp", "ssp:2"])
def test_sync_modes_without_a_barrier_hold(sync: str) -> None:
    class Bounded(ParameterServer):
        default_sync = as_sync(sync)

    report = tos.testing.check_strategy(Bounded(locking=False))
    assert {finding.outcome for finding in report.findings} == {"ok"}
