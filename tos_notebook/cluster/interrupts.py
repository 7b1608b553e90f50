"""What Ctrl-C does to Spark's jobs."""

from __future__ import annotations

import signal
import threading


def spare_jobs() -> None:
    """Let an interrupt end what waits in this process, and no Spark job.

    PySpark's own handler, which a plain Python script has, cancels all jobs: a run that trains in
    the background would end with the wait for it. A kernel, or whoever has a handler of their own,
    keeps it. Only Python's main thread can change that; on others this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGINT)
    if str(getattr(handler, "__module__", "")).startswith("pyspark."):
        signal.signal(signal.SIGINT, signal.default_int_handler)
