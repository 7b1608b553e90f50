"""`TrainingSession`: a Spark context, a program and a parameter server."""

from __future__ import annotations

import atexit
import itertools
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .cluster.connect import connect
from .cluster.executors import contact_host, executor_of, slots, task_cores
from .cluster.jobs import cancel
from .cluster.storage import Storage, digest_of, temporary_directory
from .combiners import Combiner, as_combiner
from .config import at_least_one, not_negative, one_of
from .data.blocks import check_columns
from .data.source import DataSource, as_source
from .errors import InvalidTransition, SessionClosed, TosError
from .program.capture import capture
from .ps.store import Store
from .run import Run, RunPlan, Sinks
from .server import ParameterServer
from .telemetry.bus import EventBus, Sink
from .telemetry.history import History
from .training import Training
from .transport.auth import new_secret
from .validation import validation_rows
from .worker.loop import Plan
from .worker.task import Task

_run_numbers = itertools.count(1)
_runs: list[weakref.ref[Run]] = []

watchers: list[Callable[[], Sink]] = []
"""Each is called for every run that starts, and returns a sink for it."""


def runs() -> list[Run]:
    """Return the runs of this process that somebody still holds, oldest first."""
    return [run for run in (reference() for reference in _runs) if run is not None]


class TrainingSession:
    """Trains one program on one Spark context, run after run.

    A context manager; closing it stops an active run, keeps the weights, and leaves nothing
    behind but what `directory` holds.

    Parameters
    ----------
    spark : SparkSession or SparkContext
        As `tos_notebook.connect` returns it.
    program : Program or keras.Model
        As `tos_notebook.capture` returns it.
    combiner : str, Combiner, class or function
        The rule by which the server merges a push.
    sync_interval : int
        Batches between two exchanges.
    batch_size : int
        Rows of one batch.
    server_host : str, optional
        The address of this process that executors can reach: behind address translation the
        outer one. Spark's own choice for the driver by default.
    server_port : int
        0 for any free port.
    directory : str, optional
        A Hadoop URI, or a local path, for programs and initial parameters. By default a
        temporary directory of the driver, which lasts as long as this process.
    non_finite : {"raise", "skip"}
        What an update with NaN or infinity does: end the run, or be left out.

    Raises
    ------
    ConfigError
        A setting is out of range.
    CombinerError
        An unknown combiner.
    CaptureError
        The program cannot be captured.
    TransportError
        The server's port cannot be bound.
    WorkerEnvironment
        Executors lack a package.
    """

    def __init__(
        self,
        spark: Any,
        program: Any,
        *,
        combiner: Any = "dynsgd",
        sync_interval: int = 10,
        batch_size: int = 100,
        server_host: str | None = None,
        server_port: int = 0,
        directory: str | None = None,
        non_finite: str = "raise",
    ) -> None:
        self._combiner = as_combiner(combiner)
        self._sync_interval = at_least_one("sync_interval", sync_interval)
        self._batch_size = at_least_one("batch_size", batch_size)
        self._non_finite = one_of("non_finite", non_finite, ("raise", "skip"))
        self.program = capture(program)
        self._sc = connect(spark).sparkContext
        self._storage = Storage(self._sc, directory or temporary_directory(self._sc))
        self._secret = new_secret()
        self._host = server_host or contact_host(self._sc)
        self._server = ParameterServer(self._secret, _listen_on(self._host), server_port)
        self._run: Run | None = None
        self._closed = False
        self._lock = threading.Lock()
        atexit.register(self.close)

    @property
    def combiner(self) -> Combiner:
        """The rule of the next run; may be set to whatever the constructor takes."""
        return self._combiner

    @combiner.setter
    def combiner(self, value: Any) -> None:
        self._combiner = as_combiner(value)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def address(self) -> str:
        """Where executors reach the parameter server, as host:port."""
        return f"{self._host}:{self._server.address.port}"

    def start(
        self,
        data: Any,
        epochs: int = 1,
        *,
        shuffle: bool = True,
        repartition_every: int | None = None,
        partitions: int | None = None,
        seed: int = 0,
        validation: Any = None,
        sinks: Sinks = (),
    ) -> Run:
        """Begin to train and return at once.

        Parameters
        ----------
        data : RDD of tuple, or tuple of ndarray
            Records (feature, label), or longer for several inputs; or one array for each feed.
        epochs : int
            Passes over the data.
        shuffle : bool
            Whether each epoch takes a partition's rows in a new random order.
        repartition_every : int, optional
            Epochs between two random repartitions of all rows; never by default.
        partitions : int, optional
            For arrays: number of partitions; as many as Spark runs tasks at once by default.
        seed : int
            Order and repartitioning are pure functions of it.
        validation : RDD of tuple, or tuple of ndarray, optional
            Evaluated on the driver when an epoch is done, while training goes on.
        sinks : sequence of callable
            Further consumers of the run's events.

        Raises
        ------
        ConfigError, DataError, ShapeMismatch, UnsupportedProgram
            Settings, data or program do not fit; nothing was started.
        InvalidTransition
            Another run is active.
        SessionClosed
            The session was closed.
        """
        at_least_one("epochs", epochs)
        if repartition_every is not None:
            at_least_one("repartition_every", repartition_every)
        not_negative("seed", seed)
        with self._lock:
            self._refuse_if_busy()
            count = slots(self._sc)
            wanted = count if partitions is None else at_least_one("partitions", partitions)
            source = as_source(self._sc, data, wanted)
            plan = RunPlan(epochs, repartition_every, int(seed), count)
            rows = None
            if validation is not None:
                rows = validation_rows(self._sc, validation, self.program)
            self._run = self._make_run(source, plan, shuffle, sinks)
            _runs.append(weakref.ref(self._run))
            return self._run._begin(rows)

    def run(self, data: Any, epochs: int = 1, **options: Any) -> Run:
        """Train and wait for the end; an interrupt stops the run and keeps the weights.

        Parameters and errors are those of `start` and `Run.wait`.
        """
        run = self.start(data, epochs, **options)
        try:
            return run.wait()
        except KeyboardInterrupt:
            if run.active:
                run.stop()
            raise

    def _refuse_if_busy(self) -> None:
        if self._closed:
            raise SessionClosed("This session was closed; create another TrainingSession.")
        if self._run is not None and self._run.active:
            raise InvalidTransition(
                self._run.state,
                "start another run",
                f"this session trains {self._run.run_id}; wait() for it or stop() it first.",
            )

    def _make_run(self, source: DataSource, plan: RunPlan, shuffle: bool, sinks: Sinks) -> Run:
        check_columns(source.columns, self.program.feeds)
        number = next(_run_numbers)
        run_id = f"run-{time.strftime('%Y%m%d-%H%M%S')}-{number}"
        name = self._publish_program(source)
        initial = self.program.read()
        self._storage.write(f"{run_id}.initial", initial.data)
        history = History()
        bus = EventBus([history, *sinks, *(make() for make in watchers)])
        training = Training(
            run_id,
            Store(self.program.layout, initial, self._combiner),
            self._combiner,
            self._sync_interval,
            publish=bus.publish,
            locate=lambda task: executor_of(self._sc, task),
            on_failure=lambda: cancel(self._sc, run_id),
            non_finite="skip" if self._non_finite == "skip" else "raise",
        )
        served = len(source.columns) if source.rows(0) is not None else 0
        task = Task(
            self._host,
            self._server.address.port,
            self._secret,
            name,
            task_cores(self._sc),
            Plan(run_id, plan.seed, bool(shuffle), self._batch_size, served),
        )
        self._server.serve(training)
        return Run(
            number,
            self._sc,
            self.program,
            training,
            task,
            source,
            plan,
            bus,
            history,
            on_end=lambda: self._server.serve(None),
        )

    def _publish_program(self, source: DataSource) -> str:
        """Persist the program where every executor can fetch it; return its name."""
        archive = self.program.export([(c.dtype, c.shape) for c in source.columns])
        name = f"program-{digest_of(archive)}.zip"
        self._storage.publish(name, archive)
        return name

    def close(self) -> None:
        """Stop an active run, keep the weights, close the server; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        try:
            if self._run is not None and self._run.active:
                self._stop(self._run)
        finally:
            self._server.close()

    @staticmethod
    def _stop(run: Run) -> None:
        try:
            run.stop()
        except InvalidTransition:
            run.wait(timeout=CLOSE_TIMEOUT)
        except TosError:
            if run.active:
                raise

    def __enter__(self) -> TrainingSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"serving at {self.address}"
        return f"<TrainingSession {state}: {self.program!r}, {self._combiner!r}>"


def _listen_on(contact: str) -> str:
    """Return the address to listen on: all, unless executors come over the loopback.

    Behind a container's or a cloud's address translation the contact address is none of ours.
    """
    loopback = contact == "localhost" or contact.startswith("127.") or contact == "::1"
    return contact if loopback else ""


CLOSE_TIMEOUT = 30.0
"""Seconds that `close` waits for a run that is ending by itself."""
