"""Run a Spark job that can be cancelled, and find out what ended it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import ClusterUnreachable, TosError, WorkerEnvironment
from ..wire.messages import Refused
from ..wire.refusals import error_of
from .failures import java_text, reason

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_OWN_ERROR = re.compile(r"^tos_notebook\.errors\.(?P<name>\w+): (?P<text>.*)$", re.MULTILINE)


def run_job(
    sc: SparkContext, rdd: RDD[Any], task: Callable[..., Any], group: str, description: str
) -> None:
    """Run a task over every partition of an RDD and wait for the end.

    Parameters
    ----------
    sc : SparkContext
    rdd : RDD
    task : callable
        A function of (partition number, iterator).
    group : str
        For `cancel`; no group may be used again after that.
    description : str
        Shown in Spark's own user interface.

    Raises
    ------
    Exception
        The job failed or was cancelled; `job_error` says why.
    """
    sc.setJobGroup(group, description, interruptOnCancel=True)
    rdd.mapPartitionsWithIndex(task).count()


def cancel(sc: SparkContext, group: str) -> None:
    """Cancel a group's jobs, those to come included; from any thread."""
    sc._jsc.sc().cancelJobGroupAndFutureJobs(group)


def job_error(error: BaseException) -> TosError:
    """Say in one of our errors what ended a job, without Java's stack.

    Parameters
    ----------
    error : BaseException
        What `run_job` raised.
    """
    text = java_text(error)
    if "No module named 'tos_notebook" in text:
        return WorkerEnvironment(
            "An executor cannot import this package. Install it there, or connect with "
            "tos_notebook.connect, which sends it."
        )
    own = list(_OWN_ERROR.finditer(text))
    if own:
        return error_of(Refused(own[-1]["name"], own[-1]["text"]))
    return ClusterUnreachable(f"The Spark job failed: {reason(error)}")
