"""Start Spark, or adopt one that runs."""

from __future__ import annotations

import gc
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..common.checks import positive, with_known_options
from ..common.interrupts import sparing_children
from ..errors import ClusterUnreachable, ConfigError, ConnectError
from . import environment, jvm, shipping
from .backend import spark_context
from .calls import announced, java_errors, reason, within
from .defaults import default_master, defaults_file, submitted_settings
from .executors import active_context, in_clear
from .remote.opening import remote_session

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

MASTER_TIMEOUT = 10.0
"""Seconds for a master's port to answer. Spark itself would try for 60."""

ANSWER = 15.0
"""Seconds for a Spark that runs to say so."""

APP_NAME = "tos_notebook"
"""What a Spark is called that we start, if the user has not named it."""

DEFAULTS = {
    # A progress bar on stderr leaks into notebook cells.
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A class of 30 on one machine takes more ports than Spark's 16 tries.
    "spark.port.maxRetries": "200",
    # Hadoop would wait 15 minutes for a YARN that is not there.
    "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "20000",
    "spark.hadoop.yarn.resourcemanager.connect.retry-interval.ms": "2000",
    # On YARN and Kubernetes Spark ends an application that has lost twice as many executors as it
    # has, however long ago: a night's run loses more. What cannot start at all ends it still.
    "spark.executor.maxNumFailures": "100",
    "spark.executor.failuresValidityInterval": "1h",
}
"""Settings of a Spark that we start, where neither the user nor spark-defaults.conf has any."""

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""For ``local[...]``: a machine without a network, or whose name does not resolve, is enough."""

SILENT = ("org.apache.spark.executor.Executor", "org.apache.spark.scheduler.TaskSetManager")
"""Loggers that put a Java stack into a notebook's cell for what is raised there anyway."""

SILENT_HERE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""The same of PySpark's own: what they say of a query is in the error."""

DAEMON = "tos_notebook.cluster.daemon"
"""For ``local[...]``: what forks the workers."""

IMPORT = 30.0
"""Seconds for a Python to start and to import next to nothing."""

_MASTER = re.compile(
    r"local(\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://.+|k8s://.+|yarn"
)
_WHY = (
    "a Spark Connect session (sc://...), which has no RDDs: TensorFlow's own clusters need them. "
    'Connect to the cluster itself instead, tos.connect("spark://host:7077"), yarn, k8s://... or '
    "local[*], and read the data there"
)
_EXPECTED = "a master such as local[2] or spark://host:7077, a SparkContext or a SparkSession"
_ADDRESS = re.compile(r"(?:spark://|k8s://(?:https?://)?)(?P<hosts>[^/]+)")


@with_known_options
def connect(
    master: str | SparkContext | SparkSession | None = None,
    *,
    app_name: str | None = None,
    config: Mapping[str, str] | None = None,
    warm_up: bool = True,
    ship_package: bool = False,
    timeout: float = environment.WARM_UP_TIMEOUT,
) -> SparkSession:
    """Connect to Spark: adopt a running one, or start one.

    A start also imports TensorFlow in this process, if it is installed, because Java leaves a core
    free.

    Parameters
    ----------
    master : str, SparkContext or SparkSession, optional
        ``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://...``, ``sc://host:15002`` for a
        Spark Connect server, or what to adopt. By default it adopts the active context or Connect
        session, or else connects to the server that ``SPARK_REMOTE`` names. Otherwise it starts one
        on the master that ``spark-submit``, ``SPARK_MASTER``, ``PYSPARK_SUBMIT_ARGS`` or
        ``spark-defaults.conf`` names, else on ``local[*]``. If ``SPARK_HOME`` is set, findspark
        finds that Spark.
    app_name : str, optional
        The application's name, of a Spark that is started. By default that of ``spark-submit`` or
        ``spark-defaults.conf``, else ``tos_notebook``.
    config : mapping of str, optional
        Spark settings. They cannot change those of a Spark that runs.
    warm_up : bool
        Import TensorFlow on the workers now, and check their packages, and that they reach this
        process. Workers that lack this package are sent what they need of it.
    ship_package : bool
        Send all workers what they need of this package, so that they run the driver's code, and not
        their installed version. Of a Spark that runs, Python workers that have imported
        theirs continue with it.
    timeout : float
        Seconds to wait for executors to have free cores and to warm up. Every 15 s a line on
        standard error says what this waits for.

    Raises
    ------
    JavaMissing
        No Java 17 or later to start Spark with.
    ClusterUnreachable
        The master does not answer, no executor runs a task, or executors do not reach this
        process: ``spark.tos.server.host`` and ``spark.tos.server.port`` in `config` say where
        they find it. Over Spark Connect a Spark task then has the server of a run, unless
        ``spark.tos.server.deployMode`` is ``client``.
    WorkerEnvironment
        The workers' Python lacks packages.
    ConfigError
        `timeout` is out of range, or ``spark.task.cpus`` is more than any executor has cores.
    ConnectError
        Another master or other settings are active, the context or session is stopped, Spark does
        not start, or packages are missing for Spark Connect.
    WaitTimeout
        The Spark that runs does not answer.
    """
    settings = dict(config or {})
    remote = remote_session(master, settings)
    if remote is not None:
        adopted = sc = spark_context(remote)
    else:
        adopted = _adopt(master, settings)
        sc = _start(master, app_name, settings) if adopted is None else adopted
        jvm.reap(sc)
    _warn_in_clear(sc)
    if ship_package:
        shipping.ship_package(sc)
    if warm_up:
        try:
            environment.warm_up(sc, positive("timeout", timeout))
        except (ConnectError, ConfigError):
            # Else the next connect(), with the advice taken, would adopt what is broken.
            if adopted is None:
                sc.stop()
            raise
    return _session(master, sc) if remote is None else remote


_warned: set[str] = set()
"""Applications whose user has been told that tasks travel in clear."""


def _warn_in_clear(sc: SparkContext) -> None:
    advice = in_clear(sc)
    if advice and sc.applicationId not in _warned:
        _warned.add(sc.applicationId)
        warnings.warn(advice, RuntimeWarning, stacklevel=3)


def _adopt(master: Any, settings: Mapping[str, str]) -> SparkContext | None:
    """Return the context that runs already, checked; None to start one."""
    named = master is None or isinstance(master, str)
    sc = active_context() if named else _context_of(master, _EXPECTED)
    if sc is None:
        refuse_remote_process()
        return None
    within(ANSWER, partial(_check_running, sc), "the running Spark to say that it runs")
    if named and master not in (None, sc.master):
        raise ConnectError(
            f"Expected {master}, but Spark is already connected to {sc.master}. Adopt that one "
            "with connect(), or stop it first: spark.stop()."
        )
    conf = sc.getConf()
    other = {k: conf.get(k) for k, v in settings.items() if conf.get(k) != str(v)}
    if other:
        raise ConnectError(
            f"The running Spark has other settings: {other}. They are fixed when it starts; "
            "stop it first (spark.stop()), or leave them out of config."
        )
    return sc


def running_context(given: Any) -> SparkContext:
    """Return the context of a Spark that runs.

    Parameters
    ----------
    given : SparkContext or SparkSession

    Raises
    ------
    ConnectError
        It is something else, or was stopped.
    """
    sc = _context_of(given, "a SparkContext or a SparkSession, such as that of tos.connect()")
    within(ANSWER, partial(_check_running, sc), "Spark to say that it runs")
    return sc


def _context_of(given: Any, expected: str) -> SparkContext:
    refuse_remote(given)
    sc = getattr(given, "sparkContext", given)
    if not (type(given).__module__.startswith("pyspark") and hasattr(sc, "_jsc")):
        raise ConnectError(f"Expected {expected}; got {type(given).__name__}.")
    return cast("SparkContext", sc)


def _check_running(sc: SparkContext) -> None:
    from py4j.protocol import Py4JError

    try:
        running = sc._jsc is not None and not sc._jsc.sc().isStopped()
    except (Py4JError, OSError):
        running = False
    if not running:
        raise ConnectError("The Spark context is stopped. Call its stop(), then connect() again.")


def _session(given: Any, sc: SparkContext) -> SparkSession:
    from pyspark.sql import SparkSession

    if isinstance(given, SparkSession):
        return given
    active = SparkSession.getActiveSession()
    return active if active and active.sparkContext is sc else SparkSession(sc)


def _start(master: str | None, app_name: str | None, settings: Mapping[str, str]) -> SparkContext:
    submitted = submitted_settings()
    if submitted is None:
        jvm.check_java()
        _find_spark()
    configured = defaults_file() if submitted is None else submitted
    master = master or default_master(settings, configured, submitted or {})
    _check_address(master)
    _set_python(master, settings)
    ours = DEFAULTS | ({} if submitted else jvm.settings())
    ours |= _local() if re.match(r"local(\[|$)", master) else {}
    values = {k: v for k, v in ours.items() if k not in configured} | dict(settings)
    return _launch(master, app_name or configured.get("spark.app.name") or APP_NAME, values)


def _local() -> dict[str, str]:
    """Return the settings of a Spark whose workers run on this machine."""
    command = [os.environ["PYSPARK_PYTHON"], "-c", f"import {DAEMON}"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=IMPORT)
    except (OSError, subprocess.SubprocessError):
        # Workers that lack the package are sent it later.
        return dict(LOOPBACK)
    return LOOPBACK | {"spark.python.daemon.module": DAEMON}


def _launch(master: str, app_name: str, values: Mapping[str, str]) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster(master).setAppName(app_name)
    for key, value in values.items():
        conf.set(key, str(value))
    # Java starts on another core. Joined, since two threads that import what imports each other
    # get parts of it: the next cell may do so.
    meanwhile = threading.Thread(target=_import_tensorflow, name="tos-import", daemon=True)
    meanwhile.start()
    try:
        here = jvm.located() if master.startswith("local") else nullcontext()
        with announced(f"Spark to start on {master}"), sparing_children(), here:
            sc = SparkContext(conf=conf)
    except java_errors(OSError) as error:
        kind = ConnectError if master.startswith("local") else ClusterUnreachable
        raise kind(f"Spark does not start on {master}: {reason(error)}") from None
    meanwhile.join()
    _silence(sc)
    return sc


def _import_tensorflow() -> None:
    """Import what every run needs here, with Keras; where it is missing, a run says so."""
    # Of what an import makes nothing is garbage; looking for it takes a seventh of the time.
    collects = gc.isenabled()
    gc.disable()
    with suppress(Exception):
        import keras  # noqa: F401
        import tensorflow  # noqa: F401
    if collects:
        gc.enable()


def _silence(sc: SparkContext) -> None:
    """Turn off what would be said twice."""
    log4j = sc._jvm.org.apache.logging.log4j
    # A Spark that was built with another logging library has no such class, and is not quieter.
    with suppress(TypeError):
        for name in SILENT:
            log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    # Spark before version 4 has no such loggers.
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in SILENT_HERE:
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _find_spark() -> None:
    home = os.environ.get("SPARK_HOME")
    if not home or "pyspark" in sys.modules:
        return
    import findspark

    try:
        findspark.init(home)
    except Exception as error:
        raise ConnectError(
            f"SPARK_HOME is {home}, but there is no Spark with Python there ({error}). "
            "Correct it, or unset it to use the installed pyspark."
        ) from error


def _set_python(master: str, settings: Mapping[str, str]) -> None:
    # PySpark itself reads the environment only.
    if "spark.pyspark.python" in settings:
        os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    # The python3 on the PATH is seldom the notebook's; on other machines it may well be.
    if master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _check_address(master: str) -> None:
    """Refuse a malformed master, or one whose port does not answer (yarn, local have none)."""
    if not _MASTER.fullmatch(master):
        raise ConnectError(
            "Expected a master such as local[2], local[*], spark://host:7077, yarn or "
            f"k8s://https://host:443; got {master!r}."
        )
    found = _ADDRESS.match(master)
    if found is None:
        return
    failures = []
    for address in found["hosts"].split(","):
        host, _, port = address.rpartition(":")
        try:
            place = host or address, int(port) if host else 443
            with suppress(ConnectionResetError), socket.create_connection(place, MASTER_TIMEOUT):
                pass
        except (OSError, ValueError, OverflowError) as error:
            failures.append(f"{address}: {error}")
        else:
            return
    raise ClusterUnreachable(
        f"No answer from {master} ({'; '.join(failures)}). Check the address, and whether "
        "the master runs and its port is open from here."
    )


def refuse_remote(value: Any) -> None:
    """Refuse what belongs to a Spark Connect session.

    Raises
    ------
    ConnectError
        It does.
    """
    if type(value).__module__.startswith("pyspark.sql.connect"):
        raise ConnectError(f"This {type(value).__name__} belongs to {_WHY}.")


def refuse_remote_process() -> None:
    """Refuse to start a Spark in a process that has, or is set up for, Spark Connect.

    Raises
    ------
    ConnectError
        It does.
    """
    for name in ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"):
        if name in os.environ:
            raise ConnectError(
                f"{name} is set: this process uses Spark Connect. Give the server's address, "
                f'tos.connect("sc://host:15002"), or restart the kernel without {name}.'
            )
