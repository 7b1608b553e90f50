"""What the workers' Python can import, and warming it up."""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tos_notebook.errors import ClusterUnreachable, ConnectError, WorkerEnvironment

from .executors import slots, task_cores
from .failures import java_errors, java_text, reason

if TYPE_CHECKING:
    from pyspark import SparkContext

PACKAGE = "tos_notebook"

_ARCHIVE = "tos_notebook.zip"

REQUIRED = ("numpy", "tensorflow")
"""What a worker must be able to import, in the driver's versions."""

WARM_UP_TIMEOUT = 180.0
"""Seconds. TensorFlow imports in 4-10 s; the rest is for a cluster that has to make room."""


def warm_up(sc: SparkContext, timeout: float = WARM_UP_TIMEOUT) -> list[dict[str, Any]]:
    """Import TensorFlow on every slot, and check what the workers have.

    Parameters
    ----------
    sc : SparkContext
    timeout : float
        Seconds for the whole of it.

    Returns
    -------
    list of dict
        For each slot: ``host``, ``pid``, ``python`` (version) and ``packages``, which maps
        names to versions. A worker that served two slots comes twice.

    Raises
    ------
    WorkerEnvironment
        A worker has another Python, or misses a package, or has another version of it than
        the driver. One message for each host.
    ClusterUnreachable
        No executor ran the tasks in time.
    ConnectError
        The job failed for another reason.
    """
    found = _probe_all(sc, timeout)
    if any(PACKAGE in report["missing"] for report in found):
        ship_package(sc)
        found = _probe_all(sc, timeout)
    check_reports(found, driver_packages())
    return found


def ship_package(sc: SparkContext) -> None:
    """Send this package's source to the executors, once for each context."""
    if any(Path(path).name == _ARCHIVE for path in sc._python_includes):
        return
    root = Path(__file__).resolve().parents[1]
    # Executors fetch it whenever they start: it has to last as long as the context.
    archive = Path(sc._temp_dir, _ARCHIVE)
    with zipfile.ZipFile(archive, "w") as zipped:
        for source in sorted(root.rglob("*.py")):
            zipped.write(source, source.relative_to(root.parent))
    sc.addPyFile(str(archive))


def driver_packages() -> dict[str, str]:
    """Return the driver's versions of the packages a worker needs."""
    return {name: _version(name) for name in REQUIRED}


def _version(name: str) -> str:
    # tensorflow is also installed as tensorflow-cpu and others; the metadata of any will do.
    for distribution in (name, f"{name}-cpu", f"{name}_intel"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return ""


def check_reports(reports: Sequence[dict[str, Any]], wanted: dict[str, str]) -> None:
    """Check what workers reported against the driver's packages.

    Parameters
    ----------
    reports : sequence of dict
        As `warm_up` returns, with ``missing``, which maps names to the import's error.
    wanted : dict of str
        The driver's versions by package; an empty version is not compared.

    Raises
    ------
    WorkerEnvironment
        With one line for each host.
    """
    lines: dict[str, str] = {}
    for report in reports:
        wrong = list(_differences(report, wanted))
        if wrong:
            lines[report["host"]] = f"Host {report['host']}: {'; '.join(wrong)}."
    if lines:
        raise WorkerEnvironment(
            "\n".join(lines.values()) + "\nInstall the driver's versions there, ship a packed "
            "environment (spark.archives), or set PYSPARK_PYTHON to a Python that has them; "
            "what is pure Python can go with --py-files."
        )


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


def _probe_all(sc: SparkContext, timeout: float) -> list[dict[str, Any]]:
    count = slots(sc)
    probe = make_probe((PACKAGE, *REQUIRED), task_cores(sc))
    with _job_group(sc, timeout) as expired:
        try:
            return sc.parallelize(range(count), count).mapPartitions(probe).collect()
        except java_errors() as error:
            if expired.is_set():
                raise ClusterUnreachable(
                    f"{sc.master} accepted the application, but its executors did not finish "
                    f"warming up in {timeout:g} s. See whether the cluster has free cores and "
                    "memory, and whether executors can reach the driver (spark.driver.host)."
                ) from None
            raise _job_error(sc, error) from None


@contextmanager
def _job_group(sc: SparkContext, timeout: float) -> Iterator[threading.Event]:
    """Run this thread's jobs in a group that is cancelled when the time is up."""
    group = f"tos-warm-up-{os.urandom(4).hex()}"
    keys = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
    before = {key: sc.getLocalProperty(key) for key in keys}
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        # Not cancelJobGroup, which does nothing if the job has not been submitted yet.
        sc._jsc.sc().cancelJobGroupAndFutureJobs(group)

    timer = threading.Timer(timeout, expire)
    sc.setJobGroup(group, "Warming up the workers", interruptOnCancel=True)
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()
        timer.join()
        for key, value in before.items():
            sc.setLocalProperty(key, value)


def _job_error(sc: SparkContext, error: BaseException) -> ConnectError:
    """Name what kept the workers' Python from running the probe."""
    text = java_text(error)
    python = f"The workers' Python, {sc.pythonExec},"
    advice = "Set PYSPARK_PYTHON to the driver's Python, or to the same version of it."
    if "PYTHON_VERSION_MISMATCH" in text:
        return WorkerEnvironment(f"{python} has another version than the driver's. {advice}")
    if "Cannot run program" in text:
        return WorkerEnvironment(f"{python} does not start. {advice}")
    said = [line for line in text.splitlines() if "Error: " in line or "Exception: " in line]
    return ConnectError(
        f"The workers failed to warm up: {said[-1].strip() if said else reason(error)}"
    )


def make_probe(names: Sequence[str], cores: int) -> Callable[[Iterable[Any]], Any]:
    """Return a function for `mapPartitions` that reports on the worker it runs in.

    A closure, because those are pickled by value: it must run where this package is missing.

    Parameters
    ----------
    names : sequence of str
        Packages to import.
    cores : int
        Threads TensorFlow may use.
    """

    def probe(_: Iterable[Any]) -> Iterator[dict[str, Any]]:
        import importlib
        import os
        import platform
        import socket
        import sys

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        packages, missing = {}, {}
        # TensorFlow's greeting, which no setting silences, would end in a notebook's cell.
        stderr, quiet = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        try:
            try:
                # It leaves out what TensorFlow would load on its own account.
                runner = importlib.import_module("tos_notebook.program.runner")
            except Exception:
                # Named below, one by one.
                runner = None
            for name in names:
                try:
                    packages[name] = str(getattr(importlib.import_module(name), "__version__", ""))
                except Exception as error:
                    missing[name] = f"{type(error).__name__}: {error}"
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            os.close(quiet)
        configure = getattr(runner, "configure_threads", None)
        if configure is not None:
            configure(cores)
        yield {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "packages": packages,
            "missing": missing,
        }

    return probe
