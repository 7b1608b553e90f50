"""Run a Spark job that can be cancelled, and find out what ended it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .. import errors
from ..errors import ClusterUnreachable, TosError, WorkerEnvironment
from .storage import reason

_PYTHON_ERROR = re.compile(
    r"^(?:[\w.]+\.)?(?P<name>\w+(?:Error|Exception|\w*)): (?P<text>.*)$", re.M
)


def run_job(sc: Any, rdd: Any, task: Callable[..., Any], group: str, description: str) -> None:
    """Run a task over every partition of an RDD and wait for the end.

    Parameters
    ----------
    sc : SparkContext
    rdd : RDD
    task : callable
        A function of (partition number, iterator).
    group : str
        For `cancel`.
    description : str
        Shown in Spark's own user interface.

    Raises
    ------
    Py4JJavaError
        The job failed or was cancelled; `job_error` says which.
    """
    sc.setJobGroup(group, description, interruptOnCancel=True)
    rdd.mapPartitionsWithIndex(task).count()


def cancel(sc: Any, group: str) -> None:
    """Cancel a group's jobs, from any thread."""
    sc.cancelJobGroup(group)


def job_error(error: BaseException) -> TosError:
    """Say in one of our errors what ended a job, without Java's stack.

    Parameters
    ----------
    error : BaseException
        What `run_job` raised.
    """
    text = str(error)
    if "No module named 'tos_notebook" in text:
        return WorkerEnvironment(
            "An executor cannot import this package. Install it there, or connect with "
            "tos_notebook.connect, which sends it."
        )
    for found in reversed(list(_PYTHON_ERROR.finditer(text))):
        cls = getattr(errors, found["name"], None)
        if isinstance(cls, type) and issubclass(cls, TosError) and cls is not errors.WorkerError:
            if cls is not errors.InvalidTransition:
                return cls(found["text"].strip())
    return ClusterUnreachable(f"The Spark job failed: {reason(error)}")
