"""`Run`, with jobs that run in threads instead of Spark."""

from __future__ import annotations

import gc
import inspect
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.support.threads import LIMIT, Aside, wait_for_end
from tests.unit.magics.conftest import FakeRun as FakeRunOfMagics
from tests.unit.training.checkpoint.test_writer import Disk, origin
from tests.unit.widgets.support import FakeRun as FakeRunOfViews
from tests.unit.worker.support import Served, center, nothing_left, numbers, of, until
from tos_notebook.blocks.partitioners import RandomPartitioner, Shards
from tos_notebook.chaos import Slow
from tos_notebook.combiners import Combiner, Downpour
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import (
    ClusterUnreachable,
    CombinerError,
    ConfigError,
    DataError,
    InvalidTransition,
    TosError,
    UnsupportedProgram,
    WaitTimeout,
    WorkerError,
)
from tos_notebook.events import (
    CheckpointFailed,
    CommandApplied,
    CommandLapsed,
    EpochFinished,
    Event,
    Repartitioned,
    RunFinished,
    RunStarted,
    StateChanged,
    Validated,
    WorkerLost,
)
from tos_notebook.steering.machine import Command
from tos_notebook.steering.status import CheckpointStatus
from tos_notebook.steering.trigger import Trigger
from tos_notebook.strategies.base import Strategy, TrainerSetup
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.telemetry.bus import EventBus
from tos_notebook.telemetry.history import History
from tos_notebook.training import epochs as epochs_module
from tos_notebook.training.checkpoint.folder import Folder
from tos_notebook.training.checkpoint.writer import CheckpointWriter
from tos_notebook.training.limits import Limits
from tos_notebook.training.observers.base import Maker
from tos_notebook.training.observers.validation import validator
from tos_notebook.training.options import RunOptions, SessionOptions
from tos_notebook.training.parts import RunParts
from tos_notebook.training.run import Run
from tos_notebook.training.run_plan import RunPlan
from tos_notebook.training.status import settings_now
from tos_notebook.training.swaps import Method
from tos_notebook.widgets.facts import RunFacts

ROWS = 24


class Rdd:
    """As many partitions as it is told, with nothing in them."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def mapPartitions(self, _: object) -> Rdd:
        return self


class Cluster:
    """Runs a job's tasks in threads, tries a failed task again, and can be cancelled."""

    master = "threads[2]"

    def __init__(self, slots: int = 2, tries: int = 1) -> None:
        self.tries = tries
        self.jobs: list[int] = []
        self.cancelled: list[str] = []
        self.served: Served | None = None
        self.before: Callable[[int], object] = lambda job: None
        """Called before each job, in the run's thread."""
        self.make: Callable[[int], Counting] = lambda partition: Counting()
        self._slots = threading.Semaphore(slots)
        self._tasks = iter(range(1_000_000))

    def parallelize(self, _: object, partitions: int) -> Rdd:
        return Rdd(partitions)

    def run_job(
        self, sc: Any, make: Callable[[], Rdd], task: Any, group: str, description: str
    ) -> None:
        assert sc is self
        self.before(len(self.jobs))
        rdd = make()
        self.jobs.append(rdd.partitions)
        errors: list[Exception] = []
        threads = [
            threading.Thread(target=self._try, args=(partition, errors))
            for partition in range(rdd.partitions)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive()
        if errors:
            raise RuntimeError(f"Job aborted: {errors[-1]}")

    def _try(self, partition: int, errors: list[Exception]) -> None:
        assert self.served is not None
        with self._slots:
            for left in reversed(range(self.tries)):
                try:
                    self.served.work(
                        self.make(partition),
                        partition,
                        task=next(self._tasks),
                        batch_size=2,
                        columns=1,
                        shuffle=True,
                    )
                    return
                except Exception as error:
                    if not left or self.cancelled:
                        errors.append(error)
                        return

    def cancel(self, sc: Any, group: str) -> None:
        assert sc is self
        self.cancelled.append(group)
        if self.served is not None:
            for connection in list(self.served.connections):
                connection.abort()


class Program:
    """The user's model: its parameters are what was last written."""

    layout = Counting().spec.layout
    has_learning_rate = False
    learning_rate = None
    summary = "counting, 2 parameters"
    optimizer_state: tuple[str, ...] = ("momentum",)
    feeds = Counting().spec.feeds

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.refuses: Exception | None = None

    def expected_names(self) -> None:
        """They are unknown before it is trained."""

    def write(self, buffer: Any) -> None:
        if self.refuses is not None:
            raise self.refuses
        tensors = self.layout.tensors(buffer)
        self.written.append({name: tensor.item() for name, tensor in tensors.items()})

    def finish(self) -> bool:
        return False

    def evaluate(self, columns: Any, batch_size: int) -> Mapping[str, float]:
        return {"loss": float(self.written[-1]["total"] - columns[0].sum())}


class Plan:
    batch_size = 2


@dataclass(frozen=True)
class Task:
    host: str = "driver"
    plan: Plan = field(default_factory=Plan)


def begun(run: Run, makers: Sequence[Maker] = ()) -> Run:
    """Let a run begin, as its session does."""
    run.lifecycle.begin(run, makers)
    return run


class Setting:
    """Makes runs of the counting program on a cluster of threads."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.program = Program()
        self.events: list[Event] = []
        self.ended = 0
        self.runs: list[Run] = []
        self.at_end: Callable[[], object] = lambda: None
        self.methods: list[int] = []
        self.uncut: UnsupportedProgram | None = None

    def make(
        self,
        epochs: int = 1,
        every: int | None = None,
        partitions: int = 2,
        slots: int = 2,
        combiner: Combiner | None = None,
        sinks: tuple[Any, ...] = (),
        limits: Limits | None = None,
        checkpointer: CheckpointWriter | None = None,
    ) -> Run:
        history, combiner = History(), combiner or Downpour()
        own = [] if checkpointer is None else [checkpointer]
        bus = EventBus([history, self.events.append, *own], sinks)
        layout = self.program.layout
        settings = Settings(ServerSettings(combiner), 1)
        training = Coordinator(
            "run",
            ParameterServer().trainer(TrainerSetup(layout, layout.allocate(), settings)),
            settings,
            publish=bus.publish,
            locate=lambda task: ("0", "here"),
            on_failure=self._cancel,
        )
        self.cluster.served = Served(training)
        options = RunOptions(epochs, repartition_every=every)
        parts = RunParts(
            1,
            self.cluster,
            self.program,  # type: ignore[arg-type]
            ParameterServer(),
            training,
            Task(),  # type: ignore[arg-type]
            ArraySource((numbers(ROWS),), partitions),
            RunPlan(options, slots, limits=limits or Limits()),
            bus,
            history,
            self._cancel,
            self._end,
            checkpointer=checkpointer,
            session=SessionOptions(combiner=combiner, sync_interval=1).checked(),
            method=self.method,
        )
        run = Run(parts)
        self.runs.append(run)
        return run

    def method(self, strategy: Strategy, number: int) -> Method:
        """Return how the counting program is trained by another strategy."""
        if "gradients" in strategy.needs and self.uncut is not None:
            raise self.uncut

        def trainer(buffer: Any, settings: Settings) -> Any:
            updater = Counting()
            updater.gradients = True
            layout = self.program.layout
            return strategy.trainer(TrainerSetup(layout, buffer, settings, updater=lambda: updater))

        self.methods.append(number)
        archive = Path(__file__)
        return Method(strategy, self.program, archive, Task(), trainer)  # type: ignore[arg-type]

    def start(self, **options: Any) -> Run:
        return begun(self.make(**options))

    def _cancel(self) -> None:
        self.cluster.cancel(self.cluster, "run")

    def _end(self) -> None:
        self.ended += 1
        self.at_end()

    def close(self) -> None:
        for run in self.runs:
            if run.active:
                run.stop()
        wait_for_end("tos-run")
        if self.cluster.served is not None:
            self.cluster.served.close()


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    with nothing_left(tmp_path / "shared"):
        made = Setting()
        monkeypatch.setattr(epochs_module, "run_job", made.cluster.run_job)
        yield made
        made.close()


class Gate:
    """Holds every program at one batch, until it is opened."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.opened, self._arrived, self._number = threading.Event(), threading.Semaphore(0), number
        cluster.make = self._make

    def _make(self, partition: int) -> Counting:
        program = Counting()
        program.on_batch = self._hold
        return program

    def _hold(self, number: int) -> None:
        if number == self._number:
            self._arrived.release()
            assert self.opened.wait(LIMIT)

    def reach(self, programs: int = 1) -> None:
        for _ in range(programs):
            assert self._arrived.acquire(timeout=LIMIT)


def exact(epochs: int) -> dict[str, Any]:
    return {"total": epochs * numbers(ROWS).sum(), "rows": epochs * ROWS}


# -- from start to end ------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_run_trains_every_epoch_in_one_job_and_keeps_the_weights(
    setting: Setting, partitions: int
) -> None:
    run = setting.start(epochs=3, partitions=partitions)
    assert run.wait(LIMIT) is run
    assert (run.state, run.active) == ("finished", False)
    assert setting.program.written == [exact(3)]
    assert {name: value.item() for name, value in run.parameters().items()} == exact(3)
    assert setting.cluster.jobs == [partitions]
    assert setting.ended == 1
    assert not setting.cluster.cancelled
    assert isinstance(setting.events[0], RunStarted)
    assert isinstance(setting.events[-1], RunFinished)
    assert (setting.events[-1].outcome, setting.events[-1].error) == ("finished", None)
    assert [e.samples for e in of(EpochFinished, setting.events)] == [ROWS] * 3
    assert not of(WorkerLost, setting.events)


@pytest.mark.usefixtures("only_own_garbage")
def test_a_run_that_trains_stays_although_its_caller_has_dropped_it(setting: Setting) -> None:
    gate = Gate(setting.cluster, 1)
    dropped = weakref.ref(setting.start())
    gate.reach()
    setting.runs.clear()
    gc.collect()
    run = dropped()
    gate.opened.set()
    assert run is not None
    setting.runs.append(run)
    assert run.wait(LIMIT).state == "finished"


@pytest.mark.parametrize(
    ("epochs", "every", "partitions", "jobs", "layouts"),
    [
        pytest.param(4, 1, 2, 4, [1, 2, 3], id="every epoch"),
        pytest.param(5, 2, 2, 3, [2, 4], id="every second epoch"),
        pytest.param(3, 5, 2, 1, [], id="less often than there are epochs"),
        pytest.param(3, None, 5, 3, [], id="more partitions than slots"),
        pytest.param(4, 2, 5, 4, [2], id="more partitions, and every second epoch"),
    ],
)
def test_jobs_take_the_epochs_up_to_the_next_layout(
    setting: Setting,
    epochs: int,
    every: int | None,
    partitions: int,
    jobs: int,
    layouts: list[int],
) -> None:
    run = setting.start(epochs=epochs, every=every, partitions=partitions).wait(LIMIT)
    assert setting.cluster.jobs == [partitions] * jobs
    assert [event.epoch for event in of(Repartitioned, setting.events)] == layouts
    assert setting.program.written == [exact(epochs)]
    assert [e.epoch for e in of(EpochFinished, setting.events)] == list(range(epochs))
    assert run.status.epoch == epochs


def test_partitions_that_wait_for_a_slot_train_every_epoch_before_the_next(
    setting: Setting,
) -> None:
    run = setting.start(epochs=2, partitions=6).wait(LIMIT)
    assert run.history["epoch"].is_monotonic_increasing


def test_a_job_that_somebody_else_cancels_stops_the_run(setting: Setting) -> None:
    def cancelled(job: int) -> None:
        raise RuntimeError("[SPARK_JOB_CANCELLED] Job 3 cancelled killed via the Web UI")

    setting.cluster.before = cancelled
    run = setting.start(epochs=2).wait(LIMIT)
    assert (run.state, setting.ended) == ("stopped", 1)
    assert len(setting.program.written) == 1
    assert "Job 3 cancelled killed via the Web UI" in run.status.notes[0]
    assert setting.events[-1] == RunFinished(
        setting.events[-1].time, "stopped", None, "Spark's job was canceled from outside the run"
    )


def test_a_task_that_fails_once_is_tried_again_and_no_batch_counts_twice(
    setting: Setting,
) -> None:
    setting.cluster.tries = 2
    attempts: list[int] = []

    def make(partition: int) -> Counting:
        program = Counting()
        attempts.append(partition)
        if attempts.count(partition) == 1:
            program.on_batch = _raise_at(3)
        return program

    setting.cluster.make = make
    run = setting.start(epochs=2).wait(LIMIT)
    assert run.state == "finished"
    assert setting.program.written == [exact(2)]
    assert sorted(attempts) == [0, 0, 1, 1]


def _raise_at(batch: int) -> Callable[[int], None]:
    def check(number: int) -> None:
        if number == batch:
            raise ZeroDivisionError(f"batch {batch}")

    return check


# -- looking ----------------------------------------------------------------------------


def test_status_and_tables_may_be_asked_for_at_any_time(setting: Setting) -> None:
    gate = Gate(setting.cluster, 4)
    run = setting.make(epochs=2)
    assert (run.state, run.active, run.status.milestones) == ("starting", True, 0)
    assert len(run.history) == len(run.workers) == 0
    begun(run)
    gate.reach()
    run.parts.bus.flush(LIMIT)
    status = run.status
    assert (status.run, status.state, status.epoch, status.epochs) == ("run", "running", 1, 2)
    assert 4 <= status.milestones <= 8
    assert status.samples == 2 * status.milestones
    assert len(run.history) >= 4
    assert set(run.workers["partition"]) <= {0, 1}
    assert len(run.figure().data) > 0
    assert run.parameters()["rows"] >= 8
    gate.opened.set()
    run.wait(LIMIT)
    assert (run.status.epoch, run.status.milestones, run.status.samples) == (2, 24, 2 * ROWS)
    assert run.history["samples"].sum() == 2 * ROWS
    assert list(run.workers["milestones"]) == [12, 12]
    assert run.workers["lost"].sum() == 0
    assert len(run.figure().data) > 0
    assert "finished" in repr(run)


def test_theory_is_set_beside_what_the_run_measured(setting: Setting) -> None:
    setting.program.has_learning_rate = True
    gate = Gate(setting.cluster, 1)
    run = setting.start(partitions=1)
    gate.reach()
    run.set(learning_rate=0.5)
    gate.opened.set()
    found = run.wait(LIMIT).theory
    assert found.loc["mean staleness", ["predicted", "measured"]].tolist() == [0, 0]
    assert found.loc["stable curvature", "measured"] == 4
    assert found.loc["wait (ms)", "predicted"] == 0
    assert found.loc["exchange (ms)", ["predicted", "measured"]].min() > 0
    assert found.loc["rows a second", "measured"] > 0


def test_a_learning_rate_that_is_set_is_told_with_few_digits(setting: Setting) -> None:
    setting.program.has_learning_rate = True
    run = setting.make(epochs=1)
    setting.cluster.before = lambda job: run.set(learning_rate=0.01 * 0.9, sync_interval=7)
    begun(run).wait(LIMIT)
    (told,) = run.events
    assert told["detail"] == "learning_rate=0.009, sync_interval=7"
    assert run.settings.learning_rate == 0.01 * 0.9


def test_evaluating_writes_the_present_parameters_first(setting: Setting) -> None:
    run = setting.start().wait(LIMIT)
    assert run.evaluate(numbers(ROWS)) == {"loss": 0.0}


def test_the_center_is_validated_after_each_epoch_and_at_the_end(setting: Setting) -> None:
    rows = np.arange(3.0)
    run = setting.make(epochs=2)
    assert not run.validates
    begun(run, [validator(lambda: (rows,))]).wait(LIMIT)
    assert run.validates
    found = of(Validated, setting.events)
    assert found[-1].epoch == 1
    assert found[-1].values == {"loss": run.parameters()["total"] - rows.sum()}
    assert run.validation["loss"].iloc[-1] == found[-1].values["loss"]
    assert isinstance(setting.events[-1], RunFinished)


def test_a_validation_that_does_not_end_does_not_fail_the_run(setting: Setting) -> None:
    gate = threading.Event()

    def rows() -> Any:
        gate.wait(LIMIT)
        return (np.arange(3.0),)

    run = begun(setting.make(epochs=1), [validator(rows, timeout=0.01)])
    assert run.wait(LIMIT).state == "finished"
    gate.set()
    wait_for_end("tos-validation")


def test_a_sink_that_stands_still_delays_no_validation_and_the_run_ends(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    run = setting.make(epochs=1, limits=Limits(sinks=0.01))
    run.add_sink(lambda event: gate.wait(LIMIT) and None)
    begun(run, [validator(lambda: (np.arange(3.0),))])
    run.wait(LIMIT)
    assert run.state == "finished"
    assert run.status.samples == ROWS
    assert len(of(Validated, setting.events)) == 1
    assert "still busy: <function" in caplog.text
    gate.set()
    run.parts.bus.close(LIMIT)


def test_a_sink_that_raises_is_in_the_notes(setting: Setting) -> None:
    def broken(event: Event) -> None:
        raise OSError("no such host")

    (note,) = setting.start(sinks=(broken,)).wait(LIMIT).status.notes
    assert "gets no more events: OSError: no such host" in note


def test_a_model_that_is_evaluated_without_end_is_a_named_error(
    setting: Setting,
) -> None:
    run = setting.make(epochs=1, limits=Limits(evaluation=0.01))
    with run.lifecycle.model.held():
        begun(run)
        with pytest.raises(WaitTimeout, match=r"run\.parameters\(\) returns them"):
            run.wait(LIMIT)
    assert not setting.program.written


def test_a_repartition_that_comes_too_late_is_said_to_have_lapsed(setting: Setting) -> None:
    run = setting.make(epochs=1)
    setting.cluster.before = lambda job: run.repartition(3)
    begun(run).wait(LIMIT)
    (lapsed,) = of(CommandLapsed, setting.events)
    assert "3 partitions" in lapsed.detail


def test_an_interval_by_measurement_is_for_the_next_run_and_the_message_says_why(
    setting: Setting,
) -> None:
    gate = Gate(setting.cluster, 1)
    run = setting.start()
    gate.reach()
    for ask in (
        lambda: run.set(sync_interval="auto"),  # type: ignore[arg-type]
        lambda: run.swap_strategy("allreduce:parameters", sync_interval="auto"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match="A run measures for that from its start on"):
            ask()
    gate.opened.set()
    assert run.wait(LIMIT).events == []


def test_settings_have_the_names_of_other_libraries_too(setting: Setting) -> None:
    gate = Gate(setting.cluster, 2)
    run = setting.start(epochs=2, slots=8)
    gate.reach()
    run.set(num_workers=3, compression="int8")  # type: ignore[call-arg]
    gate.opened.set()
    run.wait(LIMIT)
    assert setting.cluster.jobs == [2, 3]
    assert [row["detail"] for row in run.events] == ["codec=int8", "3 partitions"]


def test_of_two_repartitions_in_one_epoch_the_later_one_is_in_force(setting: Setting) -> None:
    """The other one has had no effect: its number of partitions is not what the run trains on."""
    gate = Gate(setting.cluster, 2)
    run = setting.start(epochs=2, slots=8)
    gate.reach()
    run.repartition(3)
    run.repartition(1)
    gate.opened.set()
    run.wait(LIMIT)
    assert setting.cluster.jobs == [2, 1]
    (lapsed,) = of(CommandLapsed, setting.events)
    assert lapsed.detail == "3 partitions: a later repartition has taken its place"
    told = [(row["detail"], row["state"]) for row in run.events]
    assert told == [(lapsed.detail, "no effect"), ("1 partition", "in force")]


def test_a_wait_that_runs_out_lets_the_run_go_on(setting: Setting) -> None:
    gate = Gate(setting.cluster, 2)
    run = setting.start()
    gate.reach()
    with pytest.raises(WaitTimeout, match=r"still running after 0\.01 s and continues"):
        run.wait(0.01)
    assert run.active
    gate.opened.set()
    assert run.wait(LIMIT).state == "finished"
    assert setting.program.written == [exact(1)]


def test_it_waits_until_that_much_is_trained(setting: Setting) -> None:
    run = setting.make(epochs=100_000)
    run.pause()
    begun(run)
    run.wait_for(workers=2)
    with pytest.raises(WaitTimeout, match="is paused, and 1 more milestones did not come"):
        run.wait_for(milestones=1, timeout=0.01)
    assert run.status.milestones == 0
    run.unpause()
    run.wait_for(milestones=3, each=True)
    assert run.history["partition"].value_counts().min() >= 3
    epoch = run.status.epoch
    run.wait_for(epochs=2)
    assert run.status.epoch >= epoch + 2


def test_a_run_that_ends_before_keeps_nobody_waiting(setting: Setting) -> None:
    run = setting.start(epochs=2)
    run.wait_for(milestones=1000 * ROWS)
    assert run.state == "finished"


def test_whoever_waits_for_a_run_that_fails_gets_its_error(setting: Setting) -> None:
    setting.program.refuses = OSError("read-only")
    with pytest.raises(TosError, match="read-only"):
        setting.start().wait_for(epochs=5)


# -- steering ---------------------------------------------------------------------------


def test_stop_returns_when_all_is_over_and_keeps_the_weights(setting: Setting) -> None:
    gate = Gate(setting.cluster, 3)
    run = setting.start(epochs=100, every=1)
    gate.reach()
    stopping = Aside(run.stop)
    until(lambda: run.state == "stopping")
    gate.opened.set()
    assert stopping.result() is run
    assert (run.state, run.active) == ("stopped", False)
    assert setting.program.written == [center(run.parts.training)]
    assert 0 < setting.program.written[0]["rows"] <= ROWS
    # No further job begins, nothing is laid out again.
    assert setting.cluster.jobs == [2]
    assert not of(Repartitioned, setting.events)
    assert not of(WorkerLost, setting.events)
    assert run.wait(LIMIT) is run


def test_stop_cancels_a_job_whose_workers_do_not_hear(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(setting.cluster, 3)
    cancel = setting.cluster.cancel

    def cancel_and_open(sc: Any, group: str) -> None:
        cancel(sc, group)
        gate.opened.set()

    monkeypatch.setattr(setting.cluster, "cancel", cancel_and_open)
    run = setting.start(limits=Limits(stop_grace=0.01))
    gate.reach(programs=2)
    run.stop()
    assert (run.state, setting.cluster.cancelled) == ("stopped", ["run"])
    assert run.wait(0) is run
    assert setting.program.written == [center(run.parts.training)]


def test_a_sink_may_stop_its_run_early(setting: Setting) -> None:
    runs: list[Run] = []

    def stop_early(event: Event) -> None:
        if isinstance(event, EpochFinished) and event.epoch == 1:
            assert runs[0].stop().active

    gate = Gate(setting.cluster, 0)
    runs.append(setting.start(epochs=1000, sinks=(stop_early,)))
    gate.opened.set()
    assert runs[0].wait(LIMIT).state == "stopped"
    assert 2 <= len(of(EpochFinished, setting.events)) < 1000
    assert not any(t.name.startswith("tos-stop") for t in threading.enumerate())


def test_a_stop_does_not_let_partitions_begin_that_wait_for_a_slot(setting: Setting) -> None:
    gate = Gate(setting.cluster, 0)
    run = setting.start(partitions=20, epochs=3)
    gate.reach(2)
    stopping = Aside(run.stop)
    until(lambda: run.state == "stopping")
    gate.opened.set()
    stopping.result()
    assert setting.cluster.cancelled == ["run"]


def test_a_stop_that_takes_too_long_says_so_and_goes_on(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setting.cluster, "cancel", lambda sc, group: None)
    gate = Gate(setting.cluster, 3)
    run = setting.start(limits=Limits(stop_grace=0.01))
    gate.reach()
    with pytest.raises(WaitTimeout, match=r"did not end within 0\.01 s"):
        run.stop(timeout=0.01)
    # Another one waits for the same end.
    with pytest.raises(WaitTimeout, match=r"did not end within 0\.02 s"):
        run.stop(timeout=0.02)
    gate.opened.set()
    run.wait(LIMIT)
    assert run.state == "stopped"


COMMANDS: dict[str, Callable[[Run], object]] = {
    "pause": lambda run: run.pause(),
    "unpause": lambda run: run.unpause(),
    "repartition": lambda run: run.repartition(3),
    "swap_combiner": lambda run: run.swap_combiner("easgd"),
    "set": lambda run: run.set(sync_interval=3),
    "swap_strategy": lambda run: run.swap_strategy("allreduce"),
}


def test_a_stop_after_the_end_is_harmless(setting: Setting) -> None:
    run = setting.start().wait(LIMIT)
    seen = len(setting.events)
    assert run.stop(reason="too late") is run
    assert len(setting.events) == seen
    assert (run.state, run.status.reason) == ("finished", None)


@pytest.mark.parametrize("command", COMMANDS)
def test_after_the_end_every_command_is_refused(setting: Setting, command: str) -> None:
    run = setting.start().wait(LIMIT)
    seen = len(setting.events)
    with pytest.raises(InvalidTransition, match="while the run is finished"):
        COMMANDS[command](run)
    assert len(setting.events) == seen
    assert run.state == "finished"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda run: run.repartition(0), ConfigError),
        (lambda run: run.repartition(2, RandomPartitioner(3)), ConfigError),
        (lambda run: run.repartition(2, Shards(2)), DataError),
        (lambda run: run.set(sync_interval=0), ConfigError),
        (lambda run: run.set(learning_rate=0.1), InvalidTransition),
        (lambda run: run.swap_combiner("esagd"), CombinerError),
        (lambda run: run.swap_strategy("pss"), ConfigError),
        (lambda run: run.unpause(), InvalidTransition),
    ],
    ids=[
        "repartition",
        "other number",
        "no labels",
        "interval",
        "learning rate",
        "combiner",
        "strategy",
        "unpause",
    ],
)
def test_a_command_that_makes_no_sense_changes_nothing(
    setting: Setting, call: Any, error: type[TosError]
) -> None:
    gate = Gate(setting.cluster, 1)
    run = setting.start()
    gate.reach()
    before = run.parts.training.settings
    with pytest.raises(error):
        call(run)
    assert run.parts.training.settings == before
    assert run.state == "running"
    gate.opened.set()
    run.wait(LIMIT)
    assert setting.program.written == [exact(1)]


def test_pause_and_unpause_show_in_state_and_events(setting: Setting) -> None:
    paused = threading.Event()

    def watch(event: Event) -> None:
        if isinstance(event, CommandApplied) and event.command == "pause":
            paused.set()

    gate = Gate(setting.cluster, 3)
    run = setting.start(sinks=(watch,))
    gate.reach()
    run.pause()
    gate.opened.set()
    assert paused.wait(LIMIT)
    assert run.state == "paused"
    rows = run.parameters()["rows"].item()
    run.unpause()
    run.wait(LIMIT)
    assert rows < ROWS
    states = [event.state for event in of(StateChanged, setting.events)]
    assert states == ["running", "paused", "running", "finished"]
    told = [(row["command"], row["source"], row["state"]) for row in run.events]
    assert told == [("pause", "Python", "in force"), ("unpause", "Python", "in force")]
    assert run.events[0]["detail"] == "every worker waits"
    assert setting.program.written == [exact(1)]


@pytest.mark.parametrize("count", [1, 3])
def test_a_repartition_takes_effect_at_the_end_of_the_epoch(setting: Setting, count: int) -> None:
    gate = Gate(setting.cluster, 2)
    run = setting.start(epochs=4, slots=8)
    gate.reach()
    run.repartition(count)
    gate.opened.set()
    run.wait(LIMIT)
    assert setting.cluster.jobs == [2, count]
    (event,) = of(Repartitioned, setting.events)
    assert (event.epoch, event.partitions) == (1, count)
    applied = [e.command for e in of(CommandApplied, setting.events)]
    assert applied == ["repartition"]
    assert setting.program.written == [exact(4)]
    assert [e.samples for e in of(EpochFinished, setting.events)] == [ROWS] * 4


# -- what goes wrong --------------------------------------------------------------------


def test_the_program_s_error_ends_the_run_and_is_raised_by_wait(setting: Setting) -> None:
    def make(partition: int) -> Counting:
        program = Counting()
        program.on_batch = _raise_at(2)
        return program

    setting.cluster.make = make
    run = setting.start(partitions=1, epochs=5)
    with pytest.raises(WorkerError, match="ZeroDivisionError: batch 2"):
        run.wait(LIMIT)
    assert (run.state, run.active) == ("failed", False)
    # Two batches were trained: what there is of weights is kept.
    assert setting.program.written == [center(run.parts.training)]
    assert setting.program.written[0]["rows"] == 4
    assert setting.events[-1].outcome == "failed"  # type: ignore[attr-defined]
    assert "ZeroDivisionError" in setting.events[-1].error  # type: ignore[attr-defined]
    assert setting.ended == 1
    assert run.stop().state == "failed"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("Job 3 is lost", ClusterUnreachable, "Job 3 is lost"),
        ("tos_notebook.errors.DataError: no rows at all", DataError, "no rows at all"),
    ],
)
def test_the_job_s_own_error_is_explained(
    setting: Setting, text: str, error: type[TosError], message: str
) -> None:
    def fail(job: int) -> None:
        raise RuntimeError(text)

    setting.cluster.before = fail
    run = setting.start()
    with pytest.raises(error, match=message):
        run.wait(LIMIT)
    assert run.state == "failed"
    assert setting.program.written == [{"total": 0, "rows": 0}]


def test_a_jvm_that_hangs_at_the_end_does_not_keep_the_run_from_ending(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = threading.Event()
    monkeypatch.setattr(ArraySource, "close", lambda self: freed.wait(LIMIT))
    run = setting.make(limits=Limits(release=0.01, stall_look=0.001, watchdog=0.01))
    monkeypatch.setattr(run.lifecycle.watchdog, "check", lambda: freed.wait(LIMIT))
    begun(run).wait(LIMIT)
    assert run.state == "finished"
    assert setting.program.written == [exact(1)]
    freed.set()
    wait_for_end("tos-watchdog")
    wait_for_end("tos-java")


def test_data_that_cannot_be_released_cost_no_weights(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the JVM is gone at the end."""

    def refuse(self: ArraySource) -> None:
        raise ConnectionRefusedError("no JVM at this port")

    monkeypatch.setattr(ArraySource, "close", refuse)
    run = setting.start().wait(LIMIT)
    assert (run.state, setting.program.written) == ("finished", [exact(1)])
    assert any("not released" in note and "no JVM" in note for note in run.status.notes)


def test_a_combiner_that_raises_ends_the_run_with_its_error(setting: Setting) -> None:
    class Broken(Downpour):
        striped = False

        def merge(self, center: Any, update: Any, push: Any) -> None:
            raise KeyError("layer")

    run = setting.start(combiner=Broken(), epochs=3)
    with pytest.raises(CombinerError, match="KeyError"):
        run.wait(LIMIT)
    assert (run.state, setting.cluster.cancelled) == ("failed", ["run"])
    assert setting.program.written == [{"total": 0, "rows": 0}]


def test_parameters_with_a_part_of_a_push_are_named_in_the_notes_and_when_they_are_saved(
    setting: Setting, tmp_path: Path
) -> None:
    class Broken(Downpour):
        def merge(self, center: Any, update: Any, push: Any) -> None:
            super().merge(center, update, push)
            raise KeyError("layer")

    run = setting.start(combiner=Broken(), epochs=3)
    with pytest.raises(CombinerError, match="A part of the push is in the parameters"):
        run.wait(LIMIT)
    (note,) = (note for note in run.status.notes if "merged a push in part" in note)
    assert "tos.resume" in note
    with pytest.warns(RuntimeWarning, match="merged a push in part"):
        run.save(tmp_path / "weights.npz")
    assert (tmp_path / "weights.npz").exists()


def test_whole_parameters_are_saved_without_a_warning(setting: Setting, tmp_path: Path) -> None:
    run = setting.start().wait(LIMIT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.save(tmp_path / "weights.npz")
    assert run.status.notes == ()


def test_a_layout_that_cannot_be_made_ends_the_run(setting: Setting) -> None:
    class Wrong:
        def assign(self, rows: int, epoch: int, partition: int) -> Any:
            return np.full(rows, 99)

    gate = Gate(setting.cluster, 2)
    run = setting.start(epochs=3)
    gate.reach()
    run.repartition(2, Wrong())
    gate.opened.set()
    with pytest.raises(ConfigError, match=r"partitions in 0\.\.1"):
        run.wait(LIMIT)
    assert setting.program.written == [exact(1)]


def test_weights_that_cannot_be_written_are_an_error_of_the_run(setting: Setting) -> None:
    setting.program.refuses = RuntimeError("the model was deleted")
    run = setting.start()
    with pytest.raises(TosError, match="the model was deleted"):
        run.wait(LIMIT)
    assert not run.active
    assert setting.ended == 1


def test_a_run_that_cannot_begin_says_why_and_has_ended(setting: Setting, tmp_path: Path) -> None:
    """An observer that cannot be made: no call waits for the end of a run that has no thread."""

    def broken(context: Any) -> Any:
        raise OSError("no such folder")

    run = setting.make(checkpointer=checkpoints(tmp_path)[1])
    with pytest.raises(OSError, match="no such folder"):
        begun(run, [broken])
    assert (run.state, run.active, setting.ended) == ("failed", False, 1)
    assert setting.cluster.jobs == []
    with pytest.raises(TosError, match="OSError: no such folder"):
        run.wait(LIMIT)
    assert isinstance(setting.events[-1], RunFinished)


def test_a_sink_that_raises_does_not_stop_the_training(setting: Setting) -> None:
    def broken(event: Event) -> None:
        raise OSError("disk full")

    run = setting.start(sinks=(broken,)).wait(LIMIT)
    assert run.state == "finished"
    assert isinstance(setting.events[-1], RunFinished)


def test_an_error_at_the_very_end_is_raised_and_leaves_nobody_waiting(setting: Setting) -> None:
    def end() -> None:
        raise RuntimeError("the end went wrong")

    run = setting.make()
    setting.at_end = end
    begun(run)
    with pytest.raises(TosError, match="the end went wrong"):
        run.wait(LIMIT)


def checkpoints(folder: Path) -> tuple[Disk, CheckpointWriter]:
    """Return what a run has checkpoints with."""
    disk = Disk(folder)
    return disk, CheckpointWriter(Folder(disk), origin(), Trigger(milestones=1000), 3)


def test_a_run_whose_last_checkpoint_failed_says_so_by_event_status_and_warning(
    setting: Setting, tmp_path: Path
) -> None:
    disk, checkpointer = checkpoints(tmp_path)
    disk.refuses = "checkpoint"
    run = setting.make(checkpointer=checkpointer)
    assert run.status.checkpoint == CheckpointStatus()
    with pytest.warns(RuntimeWarning, match="run: The run has no checkpoint yet: the disk is full"):
        begun(run).wait(LIMIT)
    assert run.state == "finished"
    assert run.status.checkpoint == CheckpointStatus(error="the disk is full")
    assert run.status.notes == ("The run has no checkpoint yet: the disk is full",)
    assert [e.message for e in of(CheckpointFailed, setting.events)] == ["the disk is full"]


def test_a_run_whose_last_checkpoint_takes_too_long_says_so(
    setting: Setting, tmp_path: Path
) -> None:
    (disk, checkpointer), answers = checkpoints(tmp_path), threading.Event()
    run = setting.make(checkpointer=checkpointer, limits=Limits(checkpoint=0.01))
    disk.before_write = lambda: answers.wait(LIMIT)
    with pytest.warns(RuntimeWarning, match="was still being written 0.01 s after the run's end"):
        begun(run).wait(LIMIT)
    assert isinstance(setting.events[-2], CheckpointFailed)
    assert isinstance(setting.events[-1], RunFinished)
    answers.set()
    wait_for_end("tos-checkpoint-run-1")
    # It came after all.
    assert run.status.checkpoint is not None
    assert (run.status.checkpoint.number, run.status.notes) == (1, ())


def test_a_run_that_ends_as_soon_as_it_has_begun_waits_for_its_checkpoint(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    start = threading.Thread.start
    monkeypatch.setattr(
        threading.Thread, "start", lambda self: (started.append(self.name), start(self))
    )
    run = begun(setting.make(checkpointer=checkpoints(tmp_path)[1])).wait(LIMIT)
    assert started.index("tos-checkpoint-run-1") < started.index(f"tos-{run.run_id}")


def test_a_run_whose_checkpoints_are_written_warns_of_nothing(
    setting: Setting, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    run = setting.make(checkpointer=checkpoints(tmp_path)[1])
    begun(run).wait(LIMIT)
    assert run.status.checkpoint is not None
    assert (run.status.checkpoint.number, run.status.checkpoint.error) == (1, None)
    assert not recwarn.list


# -- what a strategy does not obey -----------------------------------------------------------


class Deaf(ParameterServer):
    """Obeys what every run must."""

    name = "deaf"
    commands = frozenset({Command.PAUSE, Command.UNPAUSE, Command.STOP})


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: run.swap_combiner("fedavg"),
        lambda run: run.set(sync_interval=2),
        lambda run: run.repartition(3),
        lambda run: run.chaos(Slow(2)),
        lambda run: run.swap_strategy("allreduce"),
    ],
)
def test_a_command_that_the_strategy_does_not_obey_is_refused_and_changes_nothing(
    setting: Setting, ask: Callable[[Run], None]
) -> None:
    run = Run(replace(setting.start().wait(LIMIT).parts, strategy=Deaf()))
    before = run.settings
    with pytest.raises(
        InvalidTransition, match=r"'deaf' obeys pause, stop, unpause only. Train with .*'ps'"
    ):
        ask(run)
    assert run.settings == before
    assert set(RunFacts(run).actions) == {"pause", "unpause", "stop"}


class Bare:
    """Settings of a strategy that has neither combiner nor codec."""

    lockstep = False

    def check(self, sync: Any, sync_interval: int) -> None: ...

    def shown(self) -> dict[str, Any]:
        return {}


def test_a_strategy_needs_neither_combiner_nor_codec_to_be_shown() -> None:
    training = SimpleNamespace(gone_by=Settings(Bare(), 1), chaos=(), algorithm="")
    task = SimpleNamespace(plan=SimpleNamespace(batch_size=4))
    parts = SimpleNamespace(training=training, task=task)
    lifecycle: Any = SimpleNamespace(parts=parts, strategy=Deaf())
    settings = settings_now(lifecycle)
    assert (settings.strategy, settings.combiner, settings.codec) == ("deaf", None, "fp32")
    run: Any = FakeRunOfViews()
    run.settings = replace(run.settings, combiner=None)
    assert RunFacts(run)()["combiner"] is None


# -- what stands for a run in other tests ---------------------------------------------------

OF_THE_TESTS = {
    "staleness",
    *("asked", "told", "error", "waiting", "stopping", "end"),
    *("rules", "waits_for", "notes", "rows_skipped", "reason", "advice"),
    *("links", "lost", "pending"),
}
"""What the fakes have for their tests to set and read; the code that is tested asks a run only."""


@pytest.mark.parametrize("fake", [FakeRunOfMagics(1), FakeRunOfViews()], ids=["magics", "views"])
def test_what_stands_for_a_run_has_nothing_that_a_run_has_not(setting: Setting, fake: Any) -> None:
    run = setting.start().wait(LIMIT)
    shared = {name for name in dir(fake) if not name.startswith("_")} - OF_THE_TESTS
    assert [name for name in sorted(shared) if not hasattr(run, name)] == []
    assert type(fake.settings) is type(run.settings)
    for name in filter(lambda name: callable(getattr(run, name)), sorted(shared)):
        asked, known = (inspect.signature(getattr(one, name)).parameters for one in (fake, run))
        named = {each for each, taken in asked.items() if taken.kind is not taken.VAR_KEYWORD}
        assert named <= known.keys(), name


def test_the_status_of_what_stands_for_a_run_is_one_of_a_run(setting: Setting) -> None:
    known = {field.name for field in fields(setting.start().wait(LIMIT).status)}
    assert vars(FakeRunOfMagics(1).status).keys() <= known
