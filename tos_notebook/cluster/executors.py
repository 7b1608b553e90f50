"""What the driver knows of the executors."""

from __future__ import annotations

import logging
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, RemoteProtocolError, WaitTimeout
from .backend import backend_of
from .calls import within
from .jvm_backend import DRIVER, local_master
from .reach import listening_host
from .remote.context import RemoteContext, latest

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

UNKNOWN = "?"

SERVER_HOST, SERVER_PORT = "spark.tos.server.host", "spark.tos.server.port"
SERVER_TLS = "spark.tos.server.tls"
"""Where executors are to find the parameter server; for ``spark-defaults.conf`` or ``config``."""

DEPLOY_MODE = "spark.tos.server.deployMode"
"""Where a run's server is over Spark Connect; the words are those of ``spark-submit``."""

AUTO, CLIENT, CLUSTER = "auto", "client", "cluster"

WORKER_PORT = "spark.tos.worker.port"
"""A port, or a range of them, on which a worker may listen for others."""

DATA_LIMIT = "spark.tos.data.limit"
"""How much data Spark may store for a run: dealt rows, and persisted ones."""

HIGHEST_PORT = 65_535

ANSWER = 5.0
"""Seconds for Spark to say what it knows of its executors."""


def active_context() -> Any:
    """Return this process's Spark, also if the user started it; None if there is none."""
    # A process with a context has imported pyspark; importing it here could find another one.
    pyspark = sys.modules.get("pyspark")
    # A Python that has Spark Connect alone has no such class.
    known = getattr(pyspark, "SparkContext", None)
    return getattr(known, "_active_spark_context", None) or latest()


def is_running(sc: object) -> bool:
    """Whether a Spark context was not stopped from Python."""
    return sc is not None and backend_of(sc).is_running()


def is_local(sc: SparkContext) -> bool:
    """Tell whether tasks run in the driver's own JVM (``local[...]``)."""
    return local_master(sc.master) is not None


def task_cores(sc: SparkContext) -> int:
    """Return how many cores a task may use, ``spark.task.cpus``."""
    return int(setting(sc, "spark.task.cpus", "1"))


def executor_cores(sc: SparkContext) -> list[int]:
    """Return the cores of each executor that has registered; in ``local[...]`` of the only one."""
    return backend_of(sc).executor_cores()


def task_attempts(sc: SparkContext) -> int:
    """Return how often Spark runs a task before it gives up the job."""
    return backend_of(sc).task_attempts()


def slots(sc: SparkContext) -> int:
    """Return how many tasks run at once, on the executors there are now; at least 1.

    Spark's default parallelism where no executor has registered yet.
    """
    return backend_of(sc).slots()


def registered(sc: SparkContext) -> int:
    """Return how many executors a cluster has given; Spark counts the driver among them."""
    return backend_of(sc).registered()


def executor_of_started(sc: SparkContext, task_attempt_id: int) -> tuple[str, str]:
    """Return the executor id and host of a task that Spark has started; see `executor_of`.

    Raises
    ------
    RemoteProtocolError
        Spark has not started such a task. A number beyond all others would keep out the tasks that
        Spark starts later.
    """
    try:
        started = within(ANSWER, backend_of(sc).tasks_started, "Spark's number of tasks")
    except WaitTimeout as error:
        logger.warning("%s", error)
        return UNKNOWN, UNKNOWN
    if started is not None and task_attempt_id >= started:
        raise RemoteProtocolError(
            f"Expected one of the {started} tasks that Spark has started, got {task_attempt_id}."
        )
    return executor_of(sc, task_attempt_id)


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
    ask = partial(backend_of(sc).place_of_running, task_attempt_id)
    try:
        found = within(timeout, ask, "Spark's list of tasks")
    except WaitTimeout as error:
        # A worker asks while it joins, and can train without it.
        logger.warning("%s", error)
        found = None
    return found or (UNKNOWN, UNKNOWN)


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
    ask = partial(backend_of(sc).place_of_ended, stage, task_attempt_id)
    try:
        found = within(ANSWER, ask, "Spark's tasks")
    except WaitTimeout as error:
        logger.warning("%s", error)
        found = None
    return (UNKNOWN, host) if found is None else found


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
    if executor == DRIVER:
        return "See this process's standard error, and what the worker's process does."
    ask = partial(backend_of(sc).where_to_look, executor)
    try:
        return within(timeout, ask, "Spark's list of executors")
    except WaitTimeout as error:
        return str(error)


def contact_host(sc: SparkContext) -> str:
    """Return the address at which executors reach the driver's process.

    ``spark.tos.server.host``, else the one that Spark uses itself.
    """
    return setting(sc, SERVER_HOST, "") or backend_of(sc).driver_host()


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


def last_port(sc: SparkContext, port: int) -> int:
    """Return the last port that the parameter server may take, if others have those before.

    In a Spark task, which may come to an executor's host beside another, it looks further as Spark
    does for its own servers, ``spark.port.maxRetries``. In the driver a gateway may know the port.
    """
    if not port or not isinstance(sc, RemoteContext) or not sc.taken:
        return port
    return min(port + int(setting(sc, "spark.port.maxRetries", "16")), HIGHEST_PORT)


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
Spark's connections to {master} are not protected: tasks are sent over them in clear, with the \
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
    master = setting(sc, "spark.master", sc.master)
    if master.startswith("local") or listening_host(setting(sc, "spark.driver.host", "")):
        return ""
    wanted = "spark.authenticate", "spark.network.crypto.enabled", "spark.ssl.rpc.enabled"
    authenticated, *encrypted = (setting(sc, name, "false").lower() == "true" for name in wanted)
    return "" if authenticated and any(encrypted) else CLEAR.format(master=sc.master)


def deploy_mode(sc: SparkContext) -> str:
    """Return where the server of a run is to be, ``spark.tos.server.deployMode``.

    Returns
    -------
    str
        ``client`` for this process, ``cluster`` for a Spark task, and ``auto`` for a task where
        executors do not reach this process. Where this process is Spark's driver it has it.

    Raises
    ------
    ConfigError
        The setting is something else.
    """
    if not isinstance(sc, RemoteContext) or sc.taken:
        return CLIENT
    value = setting(sc, DEPLOY_MODE, AUTO).strip().lower()
    if value not in (AUTO, CLIENT, CLUSTER):
        raise ConfigError(f"{DEPLOY_MODE}: expected {AUTO}, {CLIENT} or {CLUSTER}, got {value!r}.")
    return value


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
    return backend_of(sc).setting(key, default)
