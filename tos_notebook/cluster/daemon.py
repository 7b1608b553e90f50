"""Spark's Python daemon, which forks the workers, with TensorFlow in it already.

    python -m tos_notebook.cluster.daemon pyspark.worker

TensorFlow is imported once and shared, instead of once by every worker: on two cores that is half
of the time and of the memory, and a worker that takes a dead one's place has it at once. Only the
import is shared; TensorFlow starts no thread before its first operation, which is a worker's.
"""

from __future__ import annotations

import gc
import os
import runpy
from contextlib import suppress

if __name__ == "__main__":
    stderr, quiet = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    # Of what an import makes nothing is garbage; looking for it takes a sixth of the time.
    gc.disable()
    # What is missing is for the workers to name.
    with suppress(Exception):
        from ..program import runner  # noqa: F401
    os.dup2(stderr, 2)
    os.close(stderr)
    os.close(quiet)
    gc.freeze()
    gc.enable()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
