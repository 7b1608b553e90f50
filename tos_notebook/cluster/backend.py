"""Where tasks run, and who knows about it: the driver's JVM, or a Spark Connect server."""

from __future__ import annotations

from typing import Any, Protocol

from ..errors import ConnectError
from .jvm_backend import JvmBackend
from .remote.context import RemoteContext, context_of_session, is_remote


class Backend(Protocol):
    """What this package asks of Spark, beside what `Context` says."""

    def is_running(self) -> bool:
        """Tell whether it was not stopped from Python."""

    def setting(self, key: str, default: str) -> str:
        """Return a setting of Spark.

        Parameters
        ----------
        key, default : str
        """

    def driver_host(self) -> str:
        """Return the address at which executors find this process, unless the user gives one."""

    def executor_cores(self) -> list[int]:
        """Return the cores of each executor that has registered, as far as that is known."""

    def task_attempts(self) -> int:
        """Return how often Spark runs a task before it gives up the job."""

    def slots(self) -> int:
        """Return how many tasks run at once, at least 1."""

    def registered(self) -> int:
        """Return how many executors a cluster has given."""

    def tasks_started(self) -> int | None:
        """Return how many tasks Spark has started; None if that is unknown."""

    def place_of_running(self, task: int) -> tuple[str, str] | None:
        """Return the executor's id and the host of a running task; None if unknown.

        Parameters
        ----------
        task : int
            Spark's task attempt id.
        """

    def place_of_ended(self, stage: int, task: int) -> tuple[str, str] | None:
        """Return the executor's id and the host of a task that may have ended.

        Parameters
        ----------
        stage, task : int
            Spark's numbers.
        """

    def where_to_look(self, executor: str | None) -> str:
        """Return a sentence that says where to look if an executor is silent.

        Parameters
        ----------
        executor : str or None
            None for Spark as a whole.
        """

    def tasks_of(self, group: str) -> int | None:
        """Return how many tasks run for a group of jobs; None if it has no job.

        Parameters
        ----------
        group : str
        """

    def cancel(self, group: str, timeout: float) -> None:
        """Cancel a group's jobs, those to come included; from any thread.

        Parameters
        ----------
        group : str
        timeout : float
            Seconds for Spark to take note.

        Raises
        ------
        WaitTimeout
            Spark does not answer.
        """

    def kill(self, task: int, group: str, reason: str, timeout: float) -> None:
        """Kill a task attempt, so that Spark starts another one; if Spark cannot, end its job.

        Parameters
        ----------
        task : int
            Spark's task attempt id.
        group : str
            Its job's; a job that ends so raises `ClusterUnreachable`.
        reason : str
        timeout : float
            Seconds for Spark to take note.

        Raises
        ------
        WaitTimeout
            Spark does not answer.
        """


def backend_of(sc: Any) -> Backend:
    """Return who answers for a Spark context.

    Parameters
    ----------
    sc : SparkContext or RemoteContext
    """
    return sc if isinstance(sc, RemoteContext) else JvmBackend(sc)


def require_jvm(spark: Any, what: str) -> None:
    """Refuse what needs RDDs or a JVM in this process, if a session has none.

    Parameters
    ----------
    spark : SparkSession or SparkContext
    what : str
        What needs them.

    Raises
    ------
    ConnectError
        The session is of Spark Connect.
    """
    if is_remote(spark) or isinstance(spark, RemoteContext):
        raise ConnectError(
            f"{what} needs a Spark with a JVM in this process, but a Spark Connect session has "
            'none. Connect to the cluster itself, tos.connect("spark://host:7077"), in another '
            "kernel."
        )


def spark_context(spark: Any) -> Any:
    """Return the context of a session; of Spark Connect, what stands for it.

    Parameters
    ----------
    spark : SparkSession or SparkContext
        A context is returned as it is.
    """
    if is_remote(spark):
        return context_of_session(spark)
    return getattr(spark, "sparkContext", spark)
