"""Spark's Python daemon, which forks the workers, with TensorFlow in it already.

    python -m tos_notebook.cluster.daemon pyspark.worker

TensorFlow is imported once and shared, instead of once by every worker: on two cores that is half
of the time and of the memory, and a worker that takes a dead one's place has it at once. Only the
import is shared; TensorFlow starts no thread before its first operation, which is a worker's.

What trains is imported once, too, and so is PySpark's own worker, from where it is installed.
Spark's search path begins with a zip file of it. Python keeps nothing compiled of that, and reads
its directory again for each task: half a second of a core for each new worker, and a tenth for
each task.

Nor do workers clean up behind them: a signal ends them. So their temporary files, such as the code
that TensorFlow writes of functions, lie in a folder that goes when the daemon does. If that is
killed, too, the next daemon or driver on the machine removes the folder.

The workers share their cores with the parameter server, and all wait for it. So their threads are
scheduled as batches: one that wakes does not interrupt who runs, which often is the server.
"""

from __future__ import annotations

import gc
import os
import runpy
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from ..common import temporary


def own_temporary_folder() -> None:
    """Let this process and those that it forks write temporary files where it removes them."""
    temporary.sweep()
    tempfile.tempdir = str(temporary.owned("tos-workers-"))


def without_zip_file(path: Sequence[str]) -> list[str]:
    """Return a search path without the zip file of PySpark that is part of an installed one.

    Parameters
    ----------
    path : sequence of str
        Folders and zip files in which modules are looked for.
    """
    installed = {str(Path(folder, "pyspark/python/lib/pyspark.zip")) for folder in path if folder}
    return [entry for entry in path if entry not in installed]


if __name__ == "__main__":
    sys.path[:] = without_zip_file(sys.path)
    stderr, quiet = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    # Of what an import makes nothing is garbage; looking for it takes a sixth of the time.
    gc.disable()
    # What is missing is for the workers to name.
    with suppress(Exception):
        from ..runtime import runner  # noqa: F401
    # By their names: nothing here depends on them.
    for name in (sys.argv[1], "tos_notebook.worker.task"):
        with suppress(Exception):
            import_module(name)
    os.dup2(stderr, 2)
    os.close(stderr)
    os.close(quiet)
    gc.freeze()
    gc.enable()
    own_temporary_folder()
    # Where the system has none, or does not let us, they are threads like others.
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
