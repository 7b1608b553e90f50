"""What the driver knows of the executors."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, RemoteProtocolError, WaitTimeout
from .calls import within
from .reach import listening_host

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

DRIVER = "driver"
"""Spark's id of the process that runs the tasks of a ``local[...]`` master."""

UNKNOWN = "?"

SERVER_HOST, SERVER_PORT = "spark.tos.server.host", "spark.tos.server.port"
SERVER_TLS = "spark.tos.server.tls"
"""Where executors are to find the parameter server; for ``spark-defaults.conf`` or ``config``."""

WORKER_PORT = "spark.tos.worker.port"
"""A port, or a range of them, on which a worker may listen for others."""

DATA_LIMIT = "spark.tos.data.limit"
"""How much data Spark may store for a run: dealt rows, and persisted ones."""

HIGHEST_PORT = 65_535

RECENT_TASKS = 1000
"""Tasks of a stage, newest first, among which a running one is looked up."""

ANSWER = 5.0
"""Seconds for Spark to say what it knows of its executors."""

_LOCAL = re.compile(r"local(\[(?P<slots>\d+|\*)(\s*,\s*(?P<failures>\d+))?\s*\])?")


def active_context() -> SparkContext | None:
    """Return this process's Spark, whoever started it; None if there is none."""
    # Whoever has a context has imported pyspark; importing it here could find another one.
    pyspark = sys.modules.get("pyspark")
    return None if pyspark is None else pyspark.SparkContext._active_spark_context


def is_running(sc: object) -> bool:
    """Whether a Spark context was not stopped from Python."""
    return getattr(sc, "_jsc", None) is not None


def is_local(sc: SparkContext) -> bool:
    """Tell whether tasks run in the driver's own JVM (``local[...]``)."""
    return _LOCAL.fullmatch(sc.master) is not None


def task_cores(sc: SparkContext) -> int:
    """Return how many cores a task may use, ``spark.task.cpus``."""
    return int(setting(sc, "spark.task.cpus", "1"))


def executor_cores(sc: SparkContext) -> list[int]:
    """Return the cores of each executor that has registered; in ``local[...]`` of the only one."""
    local = _LOCAL.fullmatch(sc.master)
    if local is None:
        return [executor.totalCores() for executor in _executors(sc)]
    return [_local_cores(sc, local["slots"])]


def _local_cores(sc: SparkContext, given: str | None) -> int:
    if given != "*":
        return int(given or "1")
    return int(sc._jvm.java.lang.Runtime.getRuntime().availableProcessors())


def task_attempts(sc: SparkContext) -> int:
    """Return how often Spark runs a task before it gives up the job."""
    local = _LOCAL.fullmatch(sc.master)
    if local is None:
        return int(setting(sc, "spark.task.maxFailures", "4"))
    # Spark heeds the setting on clusters only.
    return int(local["failures"] or 1)


def slots(sc: SparkContext) -> int:
    """Return how many tasks run at once, on the executors there are now; at least 1.

    Spark's default parallelism where no executor has registered yet.
    """
    local = _LOCAL.fullmatch(sc.master)
    if local is None:
        known = sum(executor.maxTasks() for executor in _executors(sc))
        return max(1, known or sc.defaultParallelism)
    return max(1, _local_cores(sc, local["slots"]) // task_cores(sc))


def registered(sc: SparkContext) -> int:
    """Return how many executors a cluster has given; Spark counts the driver among them."""
    return sum(1 for _ in _executors(sc))


def executor_of_started(sc: SparkContext, task_attempt_id: int) -> tuple[str, str]:
    """Return the executor id and host of a task that Spark has started; see `executor_of`.

    Raises
    ------
    RemoteProtocolError
        Spark has not started such a task. A number beyond all others would keep out the tasks that
        Spark starts later.
    """
    try:
        started = within(ANSWER, lambda: _tasks_started(sc), "Spark's number of tasks")
    except WaitTimeout as error:
        logger.warning("%s", error)
        return UNKNOWN, UNKNOWN
    if started is not None and task_attempt_id >= started:
        raise RemoteProtocolError(
            f"Expected one of the {started} tasks that Spark has started, got {task_attempt_id}."
        )
    return executor_of(sc, task_attempt_id)


def _tasks_started(sc: SparkContext) -> int | None:
    """Return how many tasks Spark has started; None where its scheduler does not say."""
    from py4j.protocol import Py4JError

    try:
        return int(sc._jsc.sc().taskScheduler().nextTaskId())
    except (Py4JError, TypeError):
        return None


def executor_of(sc: SparkContext, task_attempt_id: int, timeout: float = ANSWER) -> tuple[str, str]:
    """Return the executor id and host of a running task.

    The task cannot know them itself; it can send its ``TaskContext.taskAttemptId()``.

    Parameters
    ----------
    sc : SparkContext
    task_attempt_id : int
    timeout : float
        Seconds for Spark to say so.

    Returns
    -------
    tuple of str
        ``("?", "?")`` if Spark's status store does not have the task (yet, or any more), or Spark
        does not answer.
    """
    if is_local(sc):
        return DRIVER, "127.0.0.1"
    try:
        return within(timeout, lambda: _executor_of(sc, task_attempt_id), "Spark's list of tasks")
    except WaitTimeout as error:
        # A worker asks while it joins, and can train without it.
        logger.warning("%s", error)
        return UNKNOWN, UNKNOWN


def _executor_of(sc: SparkContext, task_attempt_id: int) -> tuple[str, str]:
    for task in _running_tasks(sc):
        if task.taskId() == task_attempt_id:
            return task.executorId(), task.host()
    return UNKNOWN, UNKNOWN


def executor_of_ended(
    sc: SparkContext, stage: int, task_attempt_id: int, host: str
) -> tuple[str, str]:
    """Return the executor id and host of a task that may have ended; see `executor_of`.

    Parameters
    ----------
    sc : SparkContext
    stage : int
        Spark's, of the task.
    task_attempt_id : int
    host : str
        What the task takes for its host.
    """
    if is_local(sc):
        return DRIVER, "127.0.0.1"
    from py4j.protocol import Py4JError

    try:
        found = within(ANSWER, lambda: _executor_in(sc, stage, task_attempt_id), "Spark's tasks")
    except (WaitTimeout, Py4JError) as error:
        logger.warning("%s", error)
        found = None
    return (UNKNOWN, host) if found is None else found


def _executor_in(sc: SparkContext, stage: int, task_attempt_id: int) -> tuple[str, str] | None:
    # The attempts of a stage are listed one by one, and few have more than one.
    tasks = _items(sc._jsc.sc().statusStore().taskList(stage, 0, RECENT_TASKS))
    return next(((t.executorId(), t.host()) for t in tasks if t.taskId() == task_attempt_id), None)


def where_to_look(sc: SparkContext, executor: str | None, timeout: float = ANSWER) -> str:
    """Return a sentence that says where to look if an executor, or Spark as a whole, is silent.

    Parameters
    ----------
    sc : SparkContext
    executor : str or None
        An executor's id; None for Spark as a whole.
    timeout : float
        Seconds for Spark to say what it has.
    """
    try:
        return within(timeout, lambda: _where_to_look(sc, executor), "Spark's list of executors")
    except WaitTimeout as error:
        return str(error)


def _where_to_look(sc: SparkContext, executor: str | None) -> str:
    ui = sc.uiWebUrl
    if executor is None:
        found = 1 if is_local(sc) else registered(sc)
        busy = sum(1 for _ in _running_tasks(sc))
        page = f" See {ui}." if ui else " See Spark's master or resource manager."
        return (
            f"Spark has {found} executor{'' if found == 1 else 's'} with "
            f"{slots(sc) if found else 0} slots, and {busy} tasks run.{page}"
        )
    if executor == DRIVER:
        return "See this process's standard error, and what the worker's process does."
    for known in _executors(sc):
        if known.id() == executor:
            logs = known.executorLogs()
            if logs.contains("stderr"):
                return f"See its standard error: {logs.apply('stderr')}"
    return f"See the executor's log{f' by {ui}/executors/' if ui else ''}; it may be gone."


def contact_host(sc: SparkContext) -> str:
    """Return the address at which executors reach the driver's process.

    ``spark.tos.server.host``, else the one that Spark uses itself.
    """
    own = "127.0.0.1" if is_local(sc) else setting(sc, "spark.driver.host", "127.0.0.1")
    return setting(sc, SERVER_HOST, own)


def contact_port(sc: SparkContext) -> int:
    """Return the port that the parameter server is to take, ``spark.tos.server.port``; 0 for any.

    Raises
    ------
    ConfigError
        The setting is not a port.
    """
    value = setting(sc, SERVER_PORT, "0")
    if not value.isdecimal() or int(value) > HIGHEST_PORT:
        raise ConfigError(f"{SERVER_PORT}: expected a port, 0 to {HIGHEST_PORT}, got {value!r}.")
    return int(value)


def worker_ports(sc: SparkContext) -> tuple[int, int]:
    """Return the first and the last port on which a worker may listen; 0 for any.

    They are ``spark.tos.worker.port``, such as ``40000-40100``. Each worker of a host takes one.

    Raises
    ------
    ConfigError
        The setting is neither a port nor a range of them.
    """
    value = setting(sc, WORKER_PORT, "0")
    first, dash, last = value.replace(" ", "").partition("-")
    ports = [first, last] if dash else [first, first]
    good = all(port.isdecimal() and int(port) <= HIGHEST_PORT for port in ports)
    if not good or int(ports[0]) > int(ports[1]) or (dash and not int(first)):
        raise ConfigError(
            f"{WORKER_PORT}: expected a port or a range such as 40000-40100, got {value!r}."
        )
    return int(ports[0]), int(ports[1])


def encrypts_loopback(sc: SparkContext) -> bool:
    """Return whether TLS is asked for on the loopback interface, too: ``spark.tos.server.tls``.

    Raises
    ------
    ConfigError
        The setting is neither true nor false.
    """
    value = setting(sc, SERVER_TLS, "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"{SERVER_TLS}: expected true or false, got {value!r}.")
    return value == "true"


CLEAR = """\
Spark's connections to {master} are not protected: tasks travel over them in clear, with the \
secret that lets workers into the parameter server. Set these before Spark starts, in \
spark-defaults.conf or in config=:
    spark.authenticate               true
    spark.network.crypto.enabled     true
    spark.network.crypto.cipher      AES/GCM/NoPadding
    spark.io.encryption.enabled      true
A standalone cluster also needs spark.authenticate.secret. SECURITY.md says what each one does."""


def in_clear(sc: SparkContext) -> str:
    """Return what to set where tasks go over the network in clear; nothing where they do not."""
    # Executors that find the driver on a loopback address are on its host.
    if sc.master.startswith("local") or listening_host(setting(sc, "spark.driver.host", "")):
        return ""
    wanted = "spark.authenticate", "spark.network.crypto.enabled", "spark.ssl.rpc.enabled"
    authenticated, *encrypted = (setting(sc, name, "false").lower() == "true" for name in wanted)
    return "" if authenticated and any(encrypted) else CLEAR.format(master=sc.master)


def stored_limit(sc: SparkContext) -> int:
    """Return the most bytes that a run may store of its data, ``spark.tos.data.limit``; 16g.

    Raises
    ------
    ConfigError
        The setting is not a size.
    """
    value = setting(sc, DATA_LIMIT, "16g")
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", value.strip().lower())
    if found is None:
        raise ConfigError(f"{DATA_LIMIT}: expected a size such as 16g or 0, got {value!r}.")
    return int(found[1]) << 10 * " kmgt".index(found[2] or " ")


def setting(sc: SparkContext, key: str, default: str) -> str:
    """Return a setting of Spark, as it was when Spark started."""
    # sc.getConf() would copy all settings, one call to Java for each: 30 ms.
    return str(sc._jsc.sc().conf().get(key, default))


def _executors(sc: SparkContext) -> Iterator[Any]:
    """Iterate over those of a cluster; Spark lists the driver among them."""
    known = _items(sc._jsc.sc().statusStore().executorList(True))
    return (executor for executor in known if executor.id() != DRIVER)


def _running_tasks(sc: SparkContext) -> Iterator[Any]:
    store = sc._jsc.sc().statusStore()
    for stage in _items(store.activeStages()):
        yield from _items(store.taskList(stage.stageId(), stage.attemptId(), RECENT_TASKS))


def _items(sequence: Any) -> Iterator[Any]:
    """Iterate over a Scala Seq."""
    return (sequence.apply(index) for index in range(sequence.size()))
