"""``%tos_connect``: adopt or start Spark, say what it is, and warm it up in the background."""

from __future__ import annotations

import threading
import time
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..cluster.backend import spark_context
from ..cluster.executors import active_context, is_running
from ..cluster.remote.address import is_address, shown
from ..cluster.remote.context import is_remote
from ..common.console import is_noninteractive, quiet_stderr
from ..errors import TosError
from ..readable import counted
from .text import counted_line, front_end, say


class WarmUp:
    """TensorFlow's import on the executors, on a thread of its own.

    Parameters
    ----------
    sc : SparkContext
    timeout : float
        Seconds.
    """

    def __init__(self, sc: Any, timeout: float) -> None:
        self.sc = sc
        self._timeout = timeout
        self.failed = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="tos-warm-up", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from ..cluster import environment

        try:
            environment.warm_up(self.sc, self._timeout)
        except Exception as error:
            # A Spark that was stopped meanwhile has nothing to warm up.
            self._error = error if is_running(self.sc) else None
            self.failed = True

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._thread.join(timeout)

    def raise_once(self) -> None:
        """Raise what went wrong, the first time it is asked.

        Raises
        ------
        TosError
        """
        error, self._error = self._error, None
        if error is not None:
            raise error if isinstance(error, TosError) else TosError(f"Warming up: {error}")


class Connection:
    """What ``%tos_connect`` has done in this notebook.

    Parameters
    ----------
    shell : InteractiveShell
        The notebook's.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._sc: Any = None
        self.warm_up: WarmUp | None = None

    def connect(self, namespace: dict[str, Any], options: Namespace) -> Any:
        """Connect, put ``spark`` and ``sc`` into the notebook, and say what they are.

        Parameters
        ----------
        namespace : dict
            The notebook's.
        options : Namespace
            Those of ``%tos_connect``.

        Returns
        -------
        SparkSession

        Raises
        ------
        ConnectError
        """
        from ..cluster.connect import connect

        began = time.time()
        counts: AbstractContextManager[None] = nullcontext()
        master = options.master or _existing(namespace)
        if master is options.master and active_context() is None and not is_noninteractive():
            # It takes seconds, in which nothing else would be said.
            if is_address(master):
                text = f"Connecting to {shown(master)} ..."
            else:
                text = f"Starting Spark on {master} ..." if master else "Starting Spark ..."
            counts = counted_line(front_end(self._shell), text)
        with counts, quiet_stderr():
            spark = connect(
                master, config=dict(options.conf), warm_up=False, ship_package=options.ship_package
            )
        sc = spark_context(spark)
        if sc is self._sc:
            first = f"Connected to {sc.master} already: reusing it"
        else:
            first = _what_was_done(spark, sc, began)
        self._sc = sc
        # In place: it is IPython's own dictionary.
        namespace.update(spark=spark)
        if not is_remote(spark):
            namespace.update(sc=sc)
        say(first, *_facts(sc), self._warm(options.timeout if options.warm_up else None))
        return spark

    def ensure(self, namespace: dict[str, Any]) -> Any:
        """Return the notebook's Spark; connect by the defaults if there is none yet."""
        existing = _existing(namespace)
        if existing is not None:
            return existing
        return self.connect(
            namespace, Namespace(master=None, conf=[], warm_up=False, ship_package=False)
        )

    def starts(self, namespace: dict[str, Any]) -> bool:
        """Whether `ensure` starts Spark, which takes seconds."""
        return _existing(namespace) is None and active_context() is None

    def raise_once(self) -> None:
        """Raise what went wrong in warming up, the first time it is asked."""
        if self.warm_up is not None:
            self.warm_up.raise_once()

    def _warm(self, timeout: float | None) -> str:
        if timeout is None:
            return "The executors import TensorFlow when the first run starts."
        before = self.warm_up
        if before is None or before.sc is not self._sc or before.failed:
            self.warm_up = WarmUp(self._sc, timeout)
            return "The executors warm up in the background: they import TensorFlow."
        return "The executors still warm up." if before.active else "The executors are warm."


def _existing(namespace: dict[str, Any]) -> Any:
    """Return the notebook's ``spark`` or ``sc``, if one of them is Spark's and runs."""
    for name in ("spark", "sc"):
        value = namespace.get(name)
        if type(value).__module__.startswith("pyspark.") and is_running(spark_context(value)):
            return value
    return None


def _what_was_done(spark: Any, sc: Any, began: float) -> str:
    if is_remote(spark):
        return f"Connected to the Spark Connect server {sc.master}"
    verb = "Started" if sc.startTime >= began * 1000 else "Adopted the running"
    return f"{verb} Spark on {sc.master}"


def _facts(sc: Any) -> tuple[str, str]:
    from ..cluster.summary import summary

    found = summary(sc)
    size = counted(found.executors, "executor") if found.executors else "no executor yet"
    if is_address(found.master):
        size = "its own executors"
    where = " in this process's JVM" if found.local else ""
    versions = (f"{name} {version or 'missing'}" for name, version in found.versions.items())
    return (
        f"  {size}{where}, {counted(found.cores, 'core')}, {counted(found.tasks, 'task')} at once",
        "  " + ", ".join(versions),
    )
