"""Run a Spark job that can be cancelled, and find out what ended it."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pickle import PicklingError
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any, TypeVar

from ..common.interrupts import interrupt_handler
from ..common.tracebacks import is_users, users_first
from ..errors import (
    ClusterUnreachable,
    DataError,
    ShapeMismatch,
    TosError,
    UnsupportedProgram,
    WorkerEnvironment,
    WorkerError,
)
from ..readable import sentence, with_cells
from ..wire.messages import Refused
from ..wire.refusals import error_of
from .backend import backend_of
from .calls import java_errors, java_text, reason

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

Result = TypeVar("Result")

ANSWER = 15.0
"""Seconds for Spark to take note of a command."""

POOL = "spark.scheduler.pool"
"""Of a thread: which jobs Spark's fair scheduler counts its own among."""

_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ ].*\n)+(?P<message>[\w.]+(?:: .*)?)$", re.MULTILINE
)
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_TASK = re.compile(
    r"Lost task (?P<partition>\d+)\.(?P<attempt>\d+) in stage \S+ \(TID \d+\) "
    r"\((?P<host>\S+) executor (?P<executor>[^)]+)\)"
)
_CANCELLED = re.compile(
    r"(?:\bJob \d+ cancelled\b(?! because SparkContext)|\[OPERATION_CANCELED\])"
    r"(?:(?! SQLSTATE).)*"
)
_CONDITION = re.compile(
    r"\[(?P<name>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:\.[A-Z0-9_]+)*)\] (?:(?! SQLSTATE:).)*"
)
_OF_THE_CLUSTER = (
    *("SPARK_", "INTERNAL_", "EXECUTOR_", "CONNECT", "UNABLE_TO_ACQUIRE_MEMORY"),
    *("INVALID_HANDLE", "RETRIES_EXCEEDED"),
)
"""Beginnings of Spark's conditions that are not about the data."""

_MISSING = re.compile(
    r"Input path does not exist: .*|File does not exist: .*|File \S+ does not exist.*"
)
_DAMAGED = re.compile(r"(TFRecord file .*: the record at byte .*)")
"""What our own reader of TFRecord files raises in Java."""

_OUT_OF_ARROW = ("Failure allocating buffer", "memory.OutOfMemoryException")
_NOT_THERE = re.compile(r"No module named '(tos_notebook(?:\.[\w.]+)?)'")
_OWN_ERROR = re.compile(r"^tos_notebook\.errors\.(?P<name>\w+): (?P<text>.*)$", re.MULTILINE)


def run_job(
    sc: SparkContext,
    make: Callable[[], RDD[Any]],
    task: Callable[..., Any],
    group: str,
    description: str,
) -> None:
    """Run a task over every partition of an RDD and wait for the end.

    Parameters
    ----------
    sc : SparkContext
    make : callable
        Returns the RDD. Jobs that it runs for that are of the group too.
    task : callable
        A function of (partition number, iterator).
    group : str
        For `cancel`; no group may be used again after that.
    description : str
        Shown in Spark's own user interface.
    timeout : float
        Seconds for Spark to answer.

    Raises
    ------
    Exception
        The job failed or was cancelled; `job_error` says why.
    """
    sc.setJobGroup(group, description, interruptOnCancel=True)
    make().mapPartitionsWithIndex(task).count()


def aggregate(
    blocks: RDD[Any],
    task: Callable[..., Iterator[Result]],
    add: Callable[[Result, Result], Result],
    nothing: Result,
    depth: int,
) -> Result:
    """Run a task over every partition of an RDD, and add up in executors what it yields.

    Parameters
    ----------
    blocks : RDD
    task : callable
        A function of (partition number, iterator).
    add : callable
        Adds two; their order may be any.
    nothing : object
        Adds nothing.
    depth : int
        Of the tree, from 1.

    Raises
    ------
    Exception
        See `run_job`.
    """
    return blocks.mapPartitionsWithIndex(task).treeAggregate(nothing, add, add, depth)


def pool_of(sc: SparkContext) -> str | None:
    """Return the scheduling pool of this thread's jobs; None for Spark's default."""
    pool: str | None = sc.getLocalProperty(POOL)
    return pool


def in_pool(sc: Any, pool: str | None, call: Callable[[], Result]) -> Result:
    """Make a call; its jobs, and later ones of this thread, are of a pool if one is given."""
    if pool is not None:
        sc.setLocalProperty(POOL, pool)
    return call()


def cancel(sc: SparkContext, group: str, timeout: float = ANSWER) -> None:
    """Cancel a group's jobs, those to come included; from any thread.

    Spark that has stopped, such as with its application on YARN, has none left.

    Raises
    ------
    WaitTimeout
        Spark does not answer.
    """
    backend_of(sc).cancel(group, timeout)


def kill_task(
    sc: SparkContext, group: str, task: int, reason: str, timeout: float = ANSWER
) -> None:
    """Ask Spark to kill a task attempt, its Python process included, and to start another.

    Parameters
    ----------
    sc : SparkContext
    group : str
        Of the task's job.
    task : int
        Spark's task attempt id; one that has ended is left alone.
    reason : str
        Shown in Spark's own user interface.
    timeout : float
        Seconds for Spark to answer.

    Raises
    ------
    WaitTimeout
        Spark does not answer.
    """
    backend_of(sc).kill(task, group, reason, timeout)


def cancellation(error: BaseException) -> str | None:
    """Return what Spark says of a job that was cancelled; None if something else ended it."""
    found = None if isinstance(error, TosError) else _CANCELLED.search(java_text(error))
    return None if found is None else found[0].strip()


def job_error(error: BaseException) -> TosError:
    """Say in one of our errors what ended a job, without Java's stack.

    Parameters
    ----------
    error : BaseException
        What `run_job` raised.
    """
    text = java_text(error)
    said = cancellation(error)
    if said is not None:
        return TosError(
            "The Spark job was canceled from outside, such as in Spark's web interface or "
            "with SparkContext.cancelAllJobs. Neither the data nor the cluster is at fault: call "
            f"it again. Spark says: {said}."
        )
    absent = _NOT_THERE.search(text)
    if absent is not None:
        return _absent(absent[1])
    own = list(_OWN_ERROR.finditer(text))
    raised = list(_TRACEBACK.finditer(text))
    # PySpark's own exceptions have it in Java's stack only.
    task = _TASK.search(text) or _TASK.search(str(getattr(error, "_stackTrace", "")))
    if own:
        return _own_error(own[-1], raised[-1][0] if raised else "", task)
    if raised:
        return _worker_error(_said(raised[-1], text), raised[-1][0], task)
    found = _spark_error(text)
    if isinstance(found, DataError):
        found.__cause__ = _worker_error(reason(error), "", task)
    return found or ClusterUnreachable(f"The Spark job failed: {reason(error)}")


@contextmanager
def spoken() -> Iterator[None]:
    """Raise in one of our errors what a call into Spark raises inside, without Java's stack.

    Raises
    ------
    TosError
    """
    try:
        yield
    except java_errors(PicklingError) as error:
        found = job_error(error)
        # Not Java's stack, but where it was seen.
        raise found from found.__cause__


def named(error: Exception) -> Exception:
    """Return one of our errors for what a call into Spark has raised; any other as it is."""
    return job_error(error) if isinstance(error, java_errors(PicklingError)) else error


def _spark_error(text: str) -> TosError | None:
    """Return what Spark itself says is wrong with data or functions; None if with the cluster."""
    if "CONTEXT_ONLY_VALID_ON_DRIVER" in text:
        return UnsupportedProgram(
            "A function that makes the data uses Spark itself (a SparkSession, a SparkContext, a "
            "DataFrame or an RDD), which exists on the driver only. Collect what it needs first, "
            "and use the values. Spark says: [CONTEXT_ONLY_VALID_ON_DRIVER]."
        )
    if "Could not serialize object" in text:
        return UnsupportedProgram(
            "A function that makes the data holds what cannot be sent to executors, such as a lock "
            f"or an open file. Make it inside the function. Spark says: {_first_line(text)}"
        )
    if any(sign in text for sign in _OUT_OF_ARROW):
        return DataError(
            "Spark ran out of memory for one batch of rows, since they are wide. Make batches "
            'smaller: spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100), or give '
            "spark.driver.memory and spark.executor.memory more when Spark starts. Spark says: "
            f"{_first_line(text)}"
        )
    condition = _CONDITION.search(text)
    if condition is not None and not condition["name"].startswith(_OF_THE_CLUSTER):
        return DataError(f"Spark could not make the rows: {condition[0].strip()}")
    damaged = _DAMAGED.search(text)
    if damaged is not None:
        return DataError(damaged[1].strip())
    missing = _MISSING.search(text)
    if missing is not None:
        return DataError(f"Spark could not read the data: {missing[0].strip()}")
    return None


def _absent(module: str) -> WorkerEnvironment:
    """Return what to do about this package, or a module of it, that an executor does not find."""
    if "." not in module:
        return WorkerEnvironment(
            "An executor cannot import this package. Install it there, or connect with "
            "tos_notebook.connect, which sends it."
        )
    return WorkerEnvironment(
        f"An executor cannot import {module}. It has another release of this package, or was sent "
        "only what data, training and predictions need there. Use this module in the notebook "
        "only, or install this release on the executors."
    )


def _said(raised: re.Match[str], text: str) -> str:
    """Return what was raised; TensorFlow says only further down what is wrong."""
    name, _, first = raised["message"].partition(": ")
    if not first or sentence(first):
        return raised["message"]
    return f"{name.rpartition('.')[2]}: {sentence(text[raised.end() :])}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _own_error(own: re.Match[str], traceback: str, task: re.Match[str] | None) -> TosError:
    """Return one of our errors; if it is of the data, with the worker that has seen it.

    Where rows are dealt, an executor sees them before there is a worker that could tell of them.
    """
    found = error_of(Refused(own["name"], own["text"]))
    if isinstance(found, DataError | ShapeMismatch):
        found.__cause__ = _worker_error(f"{own['name']}: {own['text']}", traceback, task)
    return found


def _worker_error(message: str, traceback: str, task: re.Match[str] | None) -> WorkerError:
    """Return what was raised before the worker's own loop was called, and where, if it is known."""
    raised = [FrameSummary(f, int(n), w) for f, n, w in _FRAME.findall(traceback)]
    # How Spark calls the user's function is nothing that the user could change.
    own = next((n for n, frame in enumerate(raised) if is_users(frame.filename)), 0)
    frames = [with_cells(frame) for frame in users_first(raised[own:])]
    if task is None:
        return WorkerError(message, frames=frames)
    place = task["executor"], task["host"], int(task["partition"]), int(task["attempt"])
    return WorkerError(message, *place, frames)


def spare_jobs() -> None:
    """Let an interrupt end what waits in this process, and no Spark job.

    PySpark's own handler, which a plain Python script has, cancels all jobs: a run that trains in
    the background would end with the wait for it. A kernel, or a script with its own handler,
    keeps it. Only Python's main thread can change that; on others this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGINT)
    if str(getattr(handler, "__module__", "")).startswith("pyspark."):
        signal.signal(signal.SIGINT, interrupt_handler())
