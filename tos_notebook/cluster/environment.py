"""What the workers' Python can import, and warming it up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .._version import __version__
from ..errors import ClusterUnreachable, ConnectError, WorkerEnvironment
from .calls import java_errors, java_text, reason
from .executors import (
    AUTO,
    CLIENT,
    CLUSTER,
    DEPLOY_MODE,
    contact_host,
    contact_port,
    deploy_mode,
    is_local,
    setting,
    slots,
    task_cores,
)
from .patience import check_cores, patiently
from .reach import ReachabilityProbe, make_probe
from .shipping import ship_package

if TYPE_CHECKING:
    from pyspark import SparkContext

PACKAGE = "tos_notebook"

REQUIRED = ("numpy", "tensorflow")
"""What a worker must be able to import, in the driver's versions."""

ADVICE = (
    "Install the driver's versions there, ship a packed environment (spark.archives), or set "
    "PYSPARK_PYTHON to a Python that has them. This package alone goes with ship_package=True "
    "(--ship-package), other pure Python with sc.addPyFile(...) or the setting "
    "spark.submit.pyFiles."
)

OTHER_HOST = (
    "set server_host (spark.tos.server.host) to an address of the driver that it reaches, and "
    "server_port (spark.tos.server.port) to a port that is open there"
)

OUT_OF_MEMORY = ("failed to map segment", "MemoryError", "Cannot allocate memory", "bad_alloc")
"""What an import raises that has too little memory."""

TOO_SMALL = (
    "spark.executor.pyspark.memory is {}, which is too small to import TensorFlow: it limits the "
    "address space of each Python worker. Raise it to 4g or more, or leave it out and give "
    "spark.executor.memoryOverhead, and start Spark again (spark.stop(), then connect)."
)

WARM_UP_TIMEOUT = 180.0
"""Seconds. TensorFlow imports in 4-10 s; the rest is for a cluster that has to make room."""


_probed: WeakKeyDictionary[SparkContext, dict[tuple[str, int], bool]] = WeakKeyDictionary()
"""By context: for addresses of this process, whether its executors have tried to reach them."""


_apart: WeakKeyDictionary[SparkContext, dict[tuple[str, int], str]] = WeakKeyDictionary()
"""By context: for an address of this process, how executors do not reach it, if so."""


def is_probed(sc: SparkContext, server: tuple[str, int]) -> bool:
    """Whether `warm_up` has succeeded for a context and an address."""
    tried = _probed.get(sc, {}).get(server)
    if tried is None or deploy_mode(sc) == CLUSTER:
        return tried is not None
    return tried and not (deploy_mode(sc) == CLIENT and _apart.get(sc, {}).get(server))


def why_deployed(sc: SparkContext, server: tuple[str, int]) -> str:
    """Say why the server of a run is to be in a Spark task; nothing if it is to be here.

    Parameters
    ----------
    sc : SparkContext
    server : (str, int)
        As for `is_probed`; what `warm_up` has found of it counts.
    """
    mode = deploy_mode(sc)
    if mode == CLUSTER:
        return f"{DEPLOY_MODE} is {CLUSTER}"
    return _apart.get(sc, {}).get(server, "") if mode == AUTO else ""


def warm_up(
    sc: SparkContext, timeout: float = WARM_UP_TIMEOUT, *, server: tuple[str, int] | None = None
) -> list[dict[str, Any]]:
    """Import TensorFlow on every slot, and check what the workers have, and whom they reach.

    Workers that lack this package are sent what they need of it.

    Parameters
    ----------
    sc : SparkContext
    timeout : float
        Seconds for the whole of it.
    server : (str, int), optional
        Host and port by which executors will be told to reach this process, 0 for any free port;
        by default what `contact_host` and `contact_port` say.

    Returns
    -------
    list of dict
        For each slot: ``host``, ``pid``, ``python`` (version), ``packages``, which maps
        names to versions, and ``unreached``, which is empty. A worker that served two slots
        comes twice.

    Raises
    ------
    WorkerEnvironment
        A worker has another Python, or misses a package, or has another version of it than
        the driver. One message for each host.
    ClusterUnreachable
        No executor ran the tasks in time, or executors do not reach this process.
    ConfigError
        No executor has the cores of one task, ``spark.task.cpus``.
    ConnectError
        The job failed for another reason.
    """
    address = server or (contact_host(sc), contact_port(sc))
    deployed = deploy_mode(sc) == CLUSTER
    with nullcontext() if deployed else _reachability(sc, address) as reach:
        found = _probe_all(sc, timeout, reach)
        if any(PACKAGE in report["missing"] for report in found):
            ship_package(sc)
            found = _probe_all(sc, timeout, reach)
    memory = setting(sc, "spark.executor.pyspark.memory", "") or None
    if deploy_mode(sc) == AUTO:
        # The server of a run can be elsewhere.
        _apart.setdefault(sc, {})[address] = _unreached(found)
        found = [{**report, "unreached": ""} for report in found]
    check_reports(found, {PACKAGE: __version__, **driver_packages()}, memory)
    known = _probed.setdefault(sc, {})
    known[address] = not deployed or known.get(address, False)
    return found


def _unreached(reports: Sequence[dict[str, Any]]) -> str:
    lost = [report["unreached"] for report in reports if report["unreached"]]
    return f"Executors do not reach this machine at {lost[0]}" if lost else ""


def _reachability(
    sc: SparkContext, address: tuple[str, int]
) -> AbstractContextManager[ReachabilityProbe | None]:
    """Listen where the server will, unless executors are in this process's JVM."""
    if not is_local(sc):
        # Taken, by a session that trains already; else the server will say what is wrong.
        with suppress(OSError, OverflowError):
            return ReachabilityProbe(*address)
    return nullcontext()


def driver_packages() -> dict[str, str]:
    """Return the driver's versions of the packages a worker needs."""
    return {name: installed_version(name) for name in REQUIRED}


def installed_version(name: str) -> str:
    """Return a package's version; empty if it is not installed."""
    # tensorflow is also installed as tensorflow-cpu and others; the metadata of any will do.
    for distribution in (name, f"{name}-cpu", f"{name}_intel"):
        with suppress(PackageNotFoundError):
            return version(distribution)
    return ""


def check_reports(
    reports: Sequence[dict[str, Any]], wanted: dict[str, str], memory: str | None = None
) -> None:
    """Check what workers reported against the driver's packages.

    Parameters
    ----------
    reports : sequence of dict
        As `warm_up` returns, with ``missing``, which maps names to the import's error, and
        ``unreached``, which says how the driver was not reached.
    wanted : dict of str
        The driver's versions by package; an empty version is not compared.
    memory : str, optional
        The limit on the memory of the workers' Python, if there is one.

    Raises
    ------
    WorkerEnvironment, ClusterUnreachable
        With one line for each host.
    """
    lacking: dict[str, dict[str, None]] = {}
    lost: dict[str, dict[str, None]] = {}
    for report in reports:
        host, address = report["host"], report["unreached"]
        lacking.setdefault(host, {}).update(dict.fromkeys(_differences(report, wanted)))
        unreached = f"it does not reach the driver at {address}; {OTHER_HOST}"
        lost.setdefault(host, {}).update({unreached: None} if address else {})
    lines = [
        f"Host {host}: {'; '.join([*lacking[host], *lost[host]])}."
        for host in lacking
        if lacking[host] or lost[host]
    ]
    errors = [error for report in reports for error in report["missing"].values()]
    if memory is not None and any(sign in error for error in errors for sign in OUT_OF_MEMORY):
        raise WorkerEnvironment("\n".join([*lines, TOO_SMALL.format(memory)]))
    if any(lacking.values()):
        raise WorkerEnvironment("\n".join([*lines, ADVICE]))
    if lines:
        raise ClusterUnreachable("\n".join(lines))


def _differences(report: dict[str, Any], wanted: dict[str, str]) -> Iterator[str]:
    for name, error in report["missing"].items():
        yield f"{report['executable']} cannot import {name} ({error})"
    for name, found in report["packages"].items():
        expected = wanted.get(name)
        if expected and _release(found) != _release(expected):
            yield f"{name} is {found}, but the driver has {expected}"


def _release(text: str) -> str:
    """Return the digits of a version: packages and their metadata spell the rest differently."""
    return text[: len(text) - len(text.lstrip("0123456789."))].rstrip(".")


def _probe_all(
    sc: SparkContext, timeout: float, reach: ReachabilityProbe | None
) -> list[dict[str, Any]]:
    count = slots(sc)
    probe = make_probe((PACKAGE, *REQUIRED), task_cores(sc), reach)
    check_cores(sc)
    with patiently(sc, timeout) as patience:
        try:
            return sc.parallelize(range(count), count).mapPartitions(probe).collect()
        except java_errors() as error:
            if patience.hopeless is not None:
                raise patience.hopeless from None
            if patience.expired:
                raise ClusterUnreachable(
                    f"{sc.master} accepted the application, but its executors did not finish "
                    f"warming up in {timeout:g} s. See whether the cluster has free cores and "
                    "memory, and whether executors can reach the driver (spark.driver.host). To "
                    "wait longer for a busy cluster, give connect() a timeout in seconds."
                ) from None
            raise _job_error(sc, error) from None


def _job_error(sc: SparkContext, error: BaseException) -> ConnectError:
    """Name what kept the workers' Python from running the probe."""
    text = java_text(error)
    python = f"The workers' Python, {sc.pythonExec},"
    advice = (
        "Spark has chosen it when it started: call spark.stop(), set PYSPARK_PYTHON to the "
        "driver's Python, or to the same version of it, and connect again."
    )
    if "PYTHON_VERSION_MISMATCH" in text:
        return WorkerEnvironment(f"{python} has another version than the driver's. {advice}")
    if "Cannot run program" in text:
        return WorkerEnvironment(f"{python} does not start. {advice}")
    said = [line for line in text.splitlines() if "Error: " in line or "Exception: " in line]
    return ConnectError(
        f"The workers failed to warm up: {said[-1].strip() if said else reason(error)}"
    )
