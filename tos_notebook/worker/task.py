"""A Spark task: connect to the server, load the program, and let the worker run."""

from __future__ import annotations

import os
import socket
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..data.blocks import Columns
from ..errors import ClusterUnreachable, TransportError, WorkerEnvironment
from ..transport.auth import Secret
from ..transport.base import Connection
from ..wire.messages import Join
from .loop import Plan, Worker

if TYPE_CHECKING:
    from ..program.runner import TensorFlowRunner


@dataclass(frozen=True, slots=True)
class Task:
    """What every task of a job is given: a function of (partition, blocks) for Spark.

    Parameters
    ----------
    host, port : str, int
        The server's contact address.
    secret : Secret
        The session's.
    program : str
        Name of the published program file.
    cores : int
        Cores of one task.
    plan : Plan
    """

    host: str
    port: int
    secret: Secret
    program: str
    cores: int
    plan: Plan

    def __call__(self, partition: int, blocks: Iterable[Columns]) -> Iterator[int]:
        """Train one partition; yield its number when it is done."""
        connection = self._connect()
        try:
            runner = _runner(self.program, self.plan.run, self.cores)
            Worker(connection, runner, self.plan, self._join(partition)).run(blocks)
        finally:
            connection.close()
        yield partition

    def _connect(self) -> Connection:
        from ..transport.tcp import connect_tcp

        try:
            return connect_tcp(self.host, self.port, self.secret)
        except TransportError as error:
            raise ClusterUnreachable(
                f"Executor host {socket.gethostname()} cannot reach the parameter server: {error}"
            ) from error

    def _join(self, partition: int) -> Join:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("A Task runs inside a Spark task only.")
        return Join(
            self.plan.run,
            partition,
            context.attemptNumber(),
            context.taskAttemptId(),
            socket.gethostname(),
            os.getpid(),
            segment="",
        )


KEPT_PROGRAMS = 2
_runners: OrderedDict[str, tuple[str, TensorFlowRunner]] = OrderedDict()
"""Loaded programs of this process and the run that each last served. Spark reuses the
process for later tasks, which then need not load again, and find their optimizer slots."""


def _runner(program: str, run: str, cores: int) -> TensorFlowRunner:
    last_run, runner = _runners.pop(program, ("", None))
    if runner is None:
        runner = _load(program, cores)
    elif last_run != run:
        runner.reset()
    _runners[program] = (run, runner)
    while len(_runners) > KEPT_PROGRAMS:
        _runners.popitem(last=False)
    return runner


def _load(program: str, cores: int) -> TensorFlowRunner:
    try:
        from ..program.runner import TensorFlowRunner, configure_threads
    except ImportError as error:
        raise WorkerEnvironment(
            f"Executor host {socket.gethostname()} cannot import what training needs: {error}. "
            "Install the package with its dependencies there, or name a Python that has them in "
            "PYSPARK_PYTHON."
        ) from error
    from ..cluster.storage import fetch

    configure_threads(cores)
    return TensorFlowRunner(fetch(program))
