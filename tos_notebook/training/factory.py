"""Make a run of what a session was asked for, and remember the runs of this process."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..archive.runner import Updater
from ..blocks.source import DataSource
from ..cluster.asking import Asking
from ..cluster.executors import executor_of_started, task_cores, worker_ports
from ..cluster.files import archive_name, digest_of, driver_folder
from ..cluster.jobs import cancel
from ..cluster.stores import PublishingStore
from ..common.arrays import Buffer
from ..common.content import content_of
from ..coordination.coordinator import Coordinator
from ..coordination.server import RunServer
from ..coordination.watchdog import held
from ..data.arrays import ArraySource
from ..data.described import DataDescription
from ..data.rdd import is_rdd, unlooked
from ..data.stream import StreamSource
from ..errors import CheckpointError
from ..persist.described import describe
from ..steering.trigger import Trigger
from ..strategies.base import Beside, Strategy, TrainerSetup, without_optimizer
from ..strategies.registry import STRATEGIES
from ..telemetry.bus import EventBus
from ..telemetry.history import History
from ..transport.auth import Secret
from ..transport.base import Endpoint
from ..worker.plan import Plan
from ..worker.task import Task
from .checkpoint.contents import Checkpoint, Origin
from .checkpoint.data import check_content, check_earlier, write_data
from .checkpoint.folder import PROGRAM, Folder
from .checkpoint.writer import CheckpointWriter
from .options import CheckedOptions
from .parts import RunParts
from .results.view import RunView
from .run import Run
from .run_request import RunRequest
from .served import require_shards
from .side_tasks import SparkTasks
from .swaps import Method

if TYPE_CHECKING:
    from ..program.export.base import Program

logger = logging.getLogger(__name__)

_runs: list[weakref.ref[Run]] = []

watchers: list[Callable[[Run], object]] = []
"""Each is told of every run before it begins, and may add a sink."""


_numbers = itertools.count(1)


def next_number() -> int:
    """Return the number of the next run of this process, from 1."""
    return next(_numbers)


def remember(run: Run) -> None:
    """Let this process know of a run that is about to begin."""
    _runs[:] = [*(known for known in _runs if known() is not None), weakref.ref(run)]
    for watch in watchers:
        watch(run)


def new_run_id() -> str:
    """Return an id that no other run has, and that sorts by time: UTC, to the second."""
    return f"run-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def runs() -> list[Run]:
    """Return the runs of this process that are still referred to, oldest first."""
    return [run for run in (reference() for reference in _runs) if run is not None]


def runs_on(sc: Any) -> list[Run]:
    """Return the active runs of this process that train on a Spark context."""
    return [run for run in runs() if run.active and run.trains_on(sc)]


def asking(sc: Any) -> Asking:
    """Return what makes calls into Spark that end, and knows the runs that hold its slots."""
    return Asking(sc, partial(_holders, sc))


def _holders(sc: Any) -> str:
    found = runs_on(sc)
    slots = max((run.slots for run in found), default=0)
    return held(_workers(found), slots, sc.master) if found else ""


def _workers(found: Iterable[Run]) -> dict[str, int]:
    """Return how many workers each run has now, by the run's number or name."""
    counts: dict[str, int] = {}
    for run in found:
        called = f'"{run.name}"' if run.name else str(run.number)
        counts[called] = counts.get(called, 0) + run.lifecycle.workers
    return counts


def without_looks(sc: Any, data: Any) -> Any:
    """Return data that are not looked at without need while runs may hold all slots."""
    if not runs_on(sc):
        return data
    if isinstance(data, DataDescription):
        return data.unlooked()
    return unlooked(data) if is_rdd(data) and data.context is sc else data


@dataclass(frozen=True, slots=True)
class RunFactory:
    """What all runs of a session have in common.

    Parameters
    ----------
    sc : SparkContext
    program : Program
    storage : PublishingStore
        For programs, initial parameters and checkpoints.
    server : RunServer
    host : str
        Where executors reach the server.
    secret : Secret
    options : CheckedOptions
        Checked. Those that can change between runs are in the settings of each run.
    ask : Asking
        Makes calls into Spark that end.
    look : callable
        Looks at the executors before the first job of a run, where that was not done.
    """

    sc: Any
    program: Program
    storage: PublishingStore
    server: RunServer
    host: str
    secret: Secret
    options: CheckedOptions
    ask: Asking
    look: Callable[[RunView], object] = lambda run: None

    def make(self, request: RunRequest, on_end: Callable[[], None]) -> Run:
        """Lay the data out and make the run, which has not begun.

        Parameters
        ----------
        request : RunRequest
        on_end : callable
            Called when the run has left nothing behind.
        """
        first, layout = request.first, request.reached.layout
        if request.resumed is not None:
            self._compare(check_earlier, first, request.resumed.checkpoint)
        source = first
        if layout is not None:
            source = self.ask("Spark to lay the data out", partial(first.repartition, *layout))
        if source is not first:
            first.close()
        if request.resumed is not None:
            self._compare(check_content, source, request.resumed.checkpoint)
        run = self._make(request, source, on_end)
        remember(run)
        return run

    def _compare(
        self,
        check: Callable[[Any, DataSource, Checkpoint], None],
        source: DataSource,
        saved: Checkpoint,
    ) -> None:
        """Look at all rows before a run continues with them."""
        try:
            compare = partial(check, self.sc, source, saved)
            self.ask("the rows, which are compared with the checkpoint", compare)
        except BaseException:
            source.close()
            raise

    def checkpointer(self, request: RunRequest, every: Trigger) -> CheckpointWriter:
        """Return what keeps a new run, its program and its arrays saved already."""
        first, options = request.first, request.plan.options
        archive = exported(self.program, first)
        origin = Origin(
            run_id=request.run_id,
            session=self.options,
            options=options,
            strategy=describe(self.options.strategy, STRATEGIES),
            partitions=first.partitions,
            columns=tuple((c.dtype, tuple(c.shape)) for c in first.columns),
            rows=first.samples,
            stored=isinstance(first, ArraySource),
            program=digest_of(archive),
            created=time.time(),
            came_in=request.came_in,
            content=content_of(first.arrays).digest if isinstance(first, ArraySource) else "",
            stream=isinstance(first, StreamSource),
            rate=self.program.learning_rate,
        )
        folder = Folder(self.storage.inside(request.run_id))
        folder.begin()
        folder.storage.write(PROGRAM, archive)
        if isinstance(first, ArraySource):
            # Before the caller can change them: the run holds the arrays, and no copy.
            write_data(folder, first.arrays)
        return CheckpointWriter(folder, origin, every, options.max_checkpoints)

    def _make(self, request: RunRequest, source: DataSource, on_end: Callable[[], None]) -> Run:
        initial = self.program.read()
        write = partial(self._write, request, source, initial)
        task = self.ask(f"the files in {self.storage.uri}", write)
        history = History()
        own = () if request.checkpointer is None else (request.checkpointer,)
        bus = EventBus([history, *own], request.sinks)
        try:
            training = self._training(request, bus, initial)
        except BaseException:
            # The strategy cannot train here.
            bus.close()
            raise
        self.server.serve(training)
        swept: list[Strategy] = [self.options.strategy]
        # Only here: a run that is refused takes no number.
        number = next_number()
        parts = RunParts(
            number,
            self.sc,
            self.program,
            self.options.strategy,
            training,
            task,
            source,
            request.plan,
            bus,
            history,
            cancel=partial(cancel, self.sc, request.run_id),
            # Asked now: Spark may be stopped by the time the run ends.
            on_end=partial(self._clear, driver_folder(self.sc), request.run_id, swept, on_end),
            reached=request.reached,
            checkpointer=request.checkpointer,
            resumed=request.resumed,
            session=self.options,
            method=partial(self._method, task, source, swept, request.plan.pool),
            others=lambda: _workers(r for r in runs_on(self.sc) if r.number != number),
            look=self.look,
        )
        return Run(parts)

    def _training(self, request: RunRequest, bus: EventBus, initial: Buffer) -> Coordinator:
        run_id = request.run_id
        training = Coordinator(
            run_id,
            self.options.strategy.trainer(
                TrainerSetup(
                    self.program.layout,
                    initial,
                    request.settings,
                    self.options.non_finite,
                    lambda: load_updater(exported(self.program, request.first)),
                    lambda: exported(self.program, request.first),
                    self.host,
                    partial(self._beside, run_id, request.plan.pool),
                    self.program.rows,
                )
            ),
            request.settings,
            publish=bus.publish,
            locate=lambda task: executor_of_started(self.sc, task),
            on_failure=lambda: cancel(self.sc, run_id),
        )
        if request.resumed is not None:
            training.restore(request.resumed.checkpoint.progress)
        return training

    def _beside(self, run_id: str, pool: str | None) -> Beside:
        return SparkTasks(self.sc, self.host, self.secret, self.server, run_id, pool)

    def _write(self, request: RunRequest, source: DataSource, initial: Buffer) -> Task:
        """Write the files that executors read; return what they do with them."""
        try:
            self.storage.sweep()
        except CheckpointError as error:
            # They take room, and nothing else.
            logger.warning("Unfinished files of earlier processes stay: %s", error)
        task = self._task(request, source)
        if request.resumed is None:
            self.storage.write(f"{request.run_id}.initial", initial.data)
        return task

    def _task(self, request: RunRequest, source: DataSource) -> Task:
        options = request.plan.options
        served = len(source.columns) if isinstance(source, ArraySource) else 0
        return Task(
            self.host,
            self.server.address.port,
            self.secret,
            self.server.fingerprint,
            self._publish(exported(self.program, source)),
            task_cores(self.sc),
            Plan(
                request.run_id,
                options.seed,
                bool(options.shuffle),
                self.options.batch_size,
                served,
                self.options.optimizer_state,
                count_labels=request.as_they_come,
                sampler=self.options.strategy.sampling,
                participants=options.participants(request.partitions),
            ),
            self.options.strategy.exchange,
            Endpoint("", *worker_ports(self.sc)),
        )

    def _method(
        self,
        task: Task,
        source: DataSource,
        swept: list[Strategy],
        pool: str | None,
        strategy: Strategy,
        swap: int,
    ) -> Method:
        """Return how a run is trained by another strategy; its program is where executors look."""
        require_shards(self.program, strategy)
        by_gradients = "gradients" in strategy.needs
        program = self.program.for_gradients() if by_gradients else self.program.for_steps()
        archive = exported(program, source)
        publish = partial(self._publish, archive)
        name = self.ask(f"the files in {self.storage.uri}", publish)
        updater = load_updater(archive) if by_gradients else None
        swept.append(strategy)
        return Method(
            strategy,
            program,
            archive,
            replace(
                task,
                program=name,
                exchange=strategy.exchange,
                plan=replace(task.plan, swap=swap, sampler=strategy.sampling),
            ),
            lambda buffer, settings: strategy.trainer(
                TrainerSetup(
                    program.layout,
                    buffer,
                    settings,
                    self.options.non_finite,
                    without_optimizer if updater is None else lambda: updater,
                    beside=partial(self._beside, f"{task.plan.run}-{swap}", pool),
                )
            ),
        )

    def _clear(
        self, folder: Path, run_id: str, swept: Iterable[Strategy], on_end: Callable[[], None]
    ) -> None:
        self.server.serve(None)
        for strategy in swept:
            strategy.sweep(folder, run_id)
        on_end()

    def _publish(self, archive: Path) -> str:
        """Persist a program where every executor can fetch it; return its name."""
        name = archive_name("program", archive)
        self.storage.publish(name, archive)
        return name


def exported(program: Program, source: DataSource) -> Path:
    """Return the archive of a program for data of these columns."""
    return program.export([(c.dtype, c.shape) for c in source.columns])


def load_updater(archive: Path) -> Updater:
    """Return the optimizer of a program, in this process."""
    from ..runtime.updater import TensorFlowUpdater

    return TensorFlowUpdater.load(archive)
