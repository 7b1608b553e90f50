"""Wait for executors: say what is waited for, and find out at once what can never come."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..common.repeats import Repeats
from ..errors import ConfigError, WaitTimeout
from .backend import backend_of
from .calls import java_errors
from .executors import executor_cores, is_local, task_cores
from .remote.address import is_address

if TYPE_CHECKING:
    from pyspark import SparkContext

ANSWER = 15.0
"""Seconds for Spark to take note that its jobs are canceled."""

STEP = 1.0
"""Seconds between two looks."""

SAY = 15.0
"""Seconds until a line says what is waited for, and until it is said again; see `Repeats`."""


@dataclass
class Patience:
    """What is known of a wait for executors.

    Parameters
    ----------
    timeout : float
        Seconds for the whole of it.
    master : str
        Whom executors come from.
    cores : callable
        Returns the cores of each executor that has registered.
    needed : int
        Cores of one task.
    say : callable
        Takes a line for the user who waits.
    clock : callable
        Seconds.

    Attributes
    ----------
    expired : bool
        Whether the time is up.
    hopeless : ConfigError or None
        Why no task can ever start, if that is so.
    """

    timeout: float
    master: str
    cores: Callable[[], list[int]]
    needed: int
    say: Callable[[str], object]
    clock: Callable[[], float] = time.monotonic
    expired: bool = field(default=False, init=False)
    hopeless: ConfigError | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._repeats = Repeats(SAY)

    def look(self) -> bool:
        """Look once; return whether to wait on."""
        now = self.clock()
        found = self.cores()
        if found and max(found) < self.needed:
            self.hopeless = too_few_cores(self.needed, max(found))
        self.expired = now - self._began >= self.timeout
        if now - self._began >= SAY and self._repeats.due(str(len(found)), now):
            self.say(self._line(len(found), now - self._began))
        return not (self.expired or self.hopeless is not None)

    def _line(self, found: int, waited: float) -> str:
        if is_address(self.master):
            # A server does not tell its executors.
            return (
                f"Waiting for {self.master} to give executors with a free core, and for them to "
                f"import TensorFlow: {waited:.0f} s of at most {self.timeout:g} s."
            )
        count = f"{found} executor{'' if found == 1 else 's'}" if found else "no executor"
        what = "to import TensorFlow, or to have a free core" if found else "to give executors"
        return (
            f"Waiting for {self.master} {what}: {count} so far, {waited:.0f} s of at most "
            f"{self.timeout:g} s."
        )


def too_few_cores(needed: int, most: int) -> ConfigError:
    """Return the error that no executor has the cores of one task."""
    return ConfigError(
        f"No task can ever start: spark.task.cpus is {needed}, but no executor has more than "
        f"{most} core{'' if most == 1 else 's'}. Lower spark.task.cpus or raise "
        "spark.executor.cores, and start Spark again (spark.stop(), then connect)."
    )


def check_cores(sc: SparkContext) -> None:
    """Refuse a ``local[...]`` whose tasks need more cores than there are.

    Raises
    ------
    ConfigError
        No task could ever start.
    """
    if is_local(sc) and (most := executor_cores(sc)[0]) < task_cores(sc):
        raise too_few_cores(task_cores(sc), most)


@contextmanager
def patiently(sc: SparkContext, timeout: float) -> Iterator[Patience]:
    """Run this thread's jobs in a group that is cancelled when there is nothing to wait for.

    Parameters
    ----------
    sc : SparkContext
    timeout : float
        Seconds.
    """
    group = f"tos-warm-up-{os.urandom(4).hex()}"
    keys = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
    before = {key: sc.getLocalProperty(key) for key in keys}
    patience = Patience(timeout, sc.master, lambda: _known(sc), task_cores(sc), _tell)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(min(STEP, timeout)):
            if not patience.look():
                with suppress(WaitTimeout):
                    backend_of(sc).cancel(group, ANSWER)
                return

    thread = threading.Thread(target=watch, name="tos-patience", daemon=True)
    sc.setJobGroup(group, "Warming up the workers", interruptOnCancel=True)
    thread.start()
    try:
        yield patience
    finally:
        ended.set()
        thread.join(STEP)
        for key, value in before.items():
            sc.setLocalProperty(key, value)


def _known(sc: SparkContext) -> list[int]:
    # Spark may be stopped meanwhile; the thread that waits for it hears of that.
    with suppress(*java_errors(OSError, AttributeError)):
        return executor_cores(sc)
    return []


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
