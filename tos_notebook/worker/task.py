"""A Spark task: connect to the server, load the program, and run the worker."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..archive.runner import (
    Advanced,
    Runner,
    ServedRunner,
    SessionRunner,
    Trained,
    TrainedRows,
    Updater,
)
from ..archive.spec import ProgramSpec, read_spec
from ..blocks.block import Columns
from ..cluster.feeding import cut_off
from ..cluster.files import executor_folder, fetch_archive
from ..cluster.gpus import claim_gpus
from ..common.arrays import Array, Arrays
from ..errors import ClusterUnreachable, TransportError, WorkerEnvironment
from ..layout import Layout
from ..runtime.loaded import Loaded
from ..transport.auth import Secret
from ..transport.base import LOOPBACK, Endpoint
from ..transport.client import MAX_PAYLOAD, ChannelConnection
from ..wire.messages import Join
from .chaos_effects import ChaosEffects
from .exchange import ExchangeMaker, WorkerContext
from .loop import Worker
from .plan import Plan

if TYPE_CHECKING:
    from pyspark import TaskContext


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a job: a function of (partition, blocks) for Spark.

    Parameters
    ----------
    host, port : str, int
        The server's contact address.
    secret : Secret
        The session's.
    fingerprint : bytes or None
        The server's certificate's; None where the server is on this host and speaks no TLS.
    program : str
        Name of the published program file.
    cores : int
        Cores of one task.
    plan : Plan
    exchange : callable
        Makes the worker's side of the strategy.
    peers : Endpoint
        The ports on which it may listen for other workers.
    """

    host: str
    port: int
    secret: Secret
    fingerprint: bytes | None
    program: str
    cores: int
    plan: Plan
    exchange: ExchangeMaker
    peers: Endpoint = LOOPBACK

    def __call__(self, partition: int, blocks: Iterable[Columns]) -> Iterator[int]:
        """Train one partition; yield its number when it is done."""
        # Before the data's own TensorFlow operations.
        gpus = claim_gpus()
        runner = runner_of(self.program, self.plan.leg, self.cores, gpus)
        connection = self._connect(runner.spec.layout)
        try:
            join = join_of(self.plan.run, partition)
            place, resets = self._endpoint(connection), self.plan.optimizer_state == "reset"
            context = WorkerContext(
                *(join, self.secret, executor_folder(), place, self.plan.leg, resets)
            )
            with closing(self.exchange(connection, runner.spec.layout, context)) as exchange:
                worker = Worker(
                    connection, exchange, runner, self.plan, join, chaos=ChaosEffects(kill=die)
                )
                worker.run(whole(blocks))
        finally:
            connection.close()
        yield partition

    def _endpoint(self, connection: ChannelConnection) -> Endpoint:
        """Return where other workers connect: by the way on which this one reaches the server."""
        return replace(self.peers, host=connection.host, tls=self.fingerprint is not None)

    def _connect(self, layout: Layout) -> ChannelConnection:
        from ..transport.dial import ANSWER, connect_tcp

        to = self.host, self.port, self.secret, self.fingerprint
        # All rows of a table may come at once, perhaps with their numbers.
        most = max(MAX_PAYLOAD, 4 * layout.nbytes)
        try:
            return connect_tcp(*to, max_payload=most, answer_timeout=ANSWER)
        except TransportError as error:
            raise ClusterUnreachable(
                f"Executor host {socket.gethostname()} cannot reach the parameter server: {error}"
            ) from error


def spark_task() -> TaskContext:
    """Return what Spark says of the task of this process."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("A Task runs inside a Spark task only.")
    return context


def join_of(run: str, partition: int) -> Join:
    """Return who the worker of this Spark task is."""
    context = spark_task()
    return Join(
        run,
        partition,
        context.attemptNumber(),
        context.taskAttemptId(),
        socket.gethostname(),
        os.getpid(),
        segment="",
        metrics=[],
    )


def whole(blocks: Iterable[Columns]) -> Iterator[Columns]:
    """Yield a partition's blocks; they are of use only if all of them have come.

    Raises
    ------
    TransportError
        Spark has stopped in their midst. The task's own error says why: Spark replaces this one.
    """
    yield from blocks
    if cut_off():
        raise TransportError(
            "Spark has sent only a part of the partition's rows. The log of the executor says what "
            "it could not read."
        )


def die() -> None:
    """End this process at once, as a system does that runs out of memory.

    A task has joined by then, so this is a process that Spark has started for tasks only.
    """
    os.kill(os.getpid(), signal.SIGKILL)


class LateRunner:
    """A runner that is loaded when it is first needed.

    A task whose data cannot be read, or that is told to leave, then never imports TensorFlow,
    which takes seconds in a fresh process.

    Parameters
    ----------
    spec : ProgramSpec
    load : callable
        Returns the runner.
    """

    def __init__(self, spec: ProgramSpec, load: Callable[[], Runner]) -> None:
        self.spec = spec
        self._load = load
        self._loaded: Runner | None = None

    def _runner(self) -> Runner:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def load(self) -> None:
        """See `Runner.load`."""
        self._runner().load()

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        """See `Runner.train`."""
        return self._runner().train(vectors, columns, batch_size)

    def train_rows(
        self, vectors: Arrays, moved: Sequence[Array | None], columns: Arrays, batch_size: int
    ) -> TrainedRows | None:
        """See `Runner.train_rows`."""
        return self._runner().train_rows(vectors, moved, columns, batch_size)

    def updater(self) -> Updater:
        """See `Runner.updater`."""
        return self._runner().updater()

    def advance(
        self, vectors: Arrays, means: Arrays, columns: Arrays, batch_size: int
    ) -> Advanced | None:
        """See `Runner.advance`."""
        return self._runner().advance(vectors, means, columns, batch_size)

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`."""
        self._runner().set_learning_rate(value)

    def reset(self) -> None:
        """See `Runner.reset`."""
        self._runner().reset()

    def reset_optimizer_state(self) -> None:
        """See `Runner.reset_optimizer_state`."""
        # What is not loaded yet has its captured values.
        if self._loaded is not None:
            self._loaded.reset_optimizer_state()

    def reset_non_finite_state(self) -> None:
        """See `Runner.reset_non_finite_state`."""
        self._runner().reset_non_finite_state()

    def connect(self, servers: Sequence[str], host: str, partition: int) -> int:
        """See `SessionRunner.connect`."""
        return cast(SessionRunner, self._runner()).connect(servers, host, partition)

    def served_ids(self, columns: Sequence[Array]) -> list[Array]:
        """See `ServedRunner.served_ids`."""
        return cast(ServedRunner, self._runner()).served_ids(columns)

    def place_rows(self, ids: Sequence[Array], rows: Sequence[Array]) -> None:
        """See `ServedRunner.place_rows`."""
        cast(ServedRunner, self._runner()).place_rows(ids, rows)

    def take_rows(self, ids: Sequence[Array]) -> list[Array]:
        """See `ServedRunner.take_rows`."""
        return cast(ServedRunner, self._runner()).take_rows(ids)

    def explain(self, error: BaseException) -> tuple[str, list[str]] | None:
        """See `Runner.explain`."""
        return None if self._loaded is None else self._loaded.explain(error)


_runners: Loaded[tuple[str, Runner]] = Loaded()
"""Runners, and the run that each last served. Later tasks of a run find their optimizer state."""


def runner_of(program: str, run: str, cores: int, gpus: Sequence[str]) -> Runner:
    """Return the program, for a part of a run between two swaps; this process may have it.

    Parameters
    ----------
    program : str
        Name of the published program file.
    run : str
        `Plan.leg`.
    cores : int
        Cores of one task.
    gpus : sequence of str
        Addresses of those of this task.
    """
    kept = _runners.get(program)
    if kept is None:
        archive = fetch_archive(program)
        return LateRunner(
            read_spec(archive),
            lambda: _runners.keep(program, (run, _load(archive, cores, gpus)))[1],
        )
    last_run, runner = kept
    if last_run != run:
        runner.reset()
    return _runners.keep(program, (run, runner))[1]


def _load(archive: Path, cores: int, gpus: Sequence[str]) -> Runner:
    try:
        from ..runtime.runner import TensorFlowRunner, configure_threads, device_for
        from ..runtime.sessions import GraphRunner
    except ImportError as error:
        raise WorkerEnvironment(
            f"Executor host {socket.gethostname()} cannot import what training needs: {error}. "
            "Install the package with its dependencies there, or name a Python that has them in "
            "PYSPARK_PYTHON."
        ) from error
    configure_threads(cores)
    if read_spec(archive).sessions:
        return GraphRunner(archive, cores)
    return TensorFlowRunner(archive, device_for(gpus))
