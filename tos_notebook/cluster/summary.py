"""A Spark application in a few words: for the notebook, and for a panel beside it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._version import __version__
from .environment import driver_packages
from .executors import is_local, registered, slots, task_cores

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """What people want to know of a Spark application.

    Parameters
    ----------
    master, application : str
        Its address, and the application's name.
    local : bool
        Whether tasks run in the driver's own JVM.
    executors, tasks, cores : int
        Registered ones, tasks that they run at once, and the cores of those; a local Spark counts
        as one executor.
    ui : str or None
        Where the driver's machine opens Spark's own page.
    versions : dict of str
        Of Spark, TensorFlow (empty if missing), Python and this package.
    """

    master: str
    application: str
    local: bool
    executors: int
    tasks: int
    cores: int
    ui: str | None
    versions: dict[str, str]


def summary(sc: SparkContext) -> ClusterSummary:
    """Ask a running Spark; takes some calls to Java, milliseconds each."""
    tasks, local = slots(sc), is_local(sc)
    return ClusterSummary(
        sc.master,
        sc.appName,
        local,
        1 if local else registered(sc),
        tasks,
        tasks * task_cores(sc),
        sc.uiWebUrl,
        {
            "Spark": sc.version,
            "TensorFlow": driver_packages()["tensorflow"],
            "Python": platform.python_version(),
            "tos_notebook": __version__,
        },
    )
