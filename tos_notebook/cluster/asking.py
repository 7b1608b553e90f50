"""What a caller waits for before a run begins: with an end, and who is in the way."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ..common.threads import in_thread
from ..errors import ConfigError, WaitTimeout
from .backend import backend_of
from .calls import within
from .executors import setting
from .jobs import cancel, in_pool, pool_of

if TYPE_CHECKING:
    from pyspark import SparkContext

Result = TypeVar("Result")

START_TIMEOUT = "spark.tos.start.timeout"
"""Seconds that a call of `start` or `resume` waits for Spark while no task works for it."""

HELD = 5.0
"""Seconds after which a look at the data gives up, if other runs hold all slots."""

ANSWER = 15.0
"""Seconds for Spark to say what it does."""

LOOK = 0.2
"""Seconds between two looks at who is in the way."""

EACH = 1.0
"""Seconds between two looks at the tasks of a call."""


class Asking:
    """Makes calls into Spark that end: by themselves, or with an error that says what was awaited.

    Parameters
    ----------
    sc : SparkContext
    holders : callable
        Returns which runs hold all slots, such as "run 1 holds both slots of local[2]"; empty if
        some are free.
    held : float
        Seconds after which a call gives up, if other runs hold all slots.
    look : float
        Seconds between two looks at who is in the way.
    """

    def __init__(
        self,
        sc: SparkContext,
        holders: Callable[[], str] = str,
        held: float = HELD,
        look: float = LOOK,
    ) -> None:
        self._sc = sc
        self._holders = holders
        self._held_limit = held
        self._look = look

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Wait in the block for the slots that other runs hold: the caller waits anyway."""
        before, self._held_limit = self._held_limit, math.inf
        try:
            yield
        finally:
            self._held_limit = before

    def __call__(self, what: str, call: Callable[[], Result]) -> Result:
        """Return what a call returns, or raise what it raises.

        It runs on a thread of its own. Its Spark jobs are of the caller's scheduling pool, and of a
        group that is canceled if it is given up or interrupted.

        Parameters
        ----------
        what : str
            Completes "waited for".
        call : callable

        Raises
        ------
        WaitTimeout
            Other runs hold the slots that it needs; or Spark does not answer, or runs no task for
            it.
        """
        limit = within(ANSWER, partial(_start_timeout, self._sc), what)
        group = f"tos-start-{os.urandom(4).hex()}"

        def grouped() -> Result:
            self._sc.setJobGroup(group, f"Before a run: {what}", interruptOnCancel=True)
            return call()

        def tasks() -> int | None:
            return within(ANSWER, partial(backend_of(self._sc).tasks_of, group), what)

        answer = in_thread(group, partial(in_pool, self._sc, pool_of(self._sc), grouped))
        silent = held = looked = time.monotonic()
        try:
            while not wait({answer}, self._look).done:
                holders, now = self._holders(), time.monotonic()
                if not holders:
                    held = now
                elif now - held >= self._held_limit and tasks() == 0:
                    raise WaitTimeout(
                        f"Waited {self._held_limit:g} s for {what}, which needs a slot of Spark, "
                        f"but {holders}. Nothing was started. Stop that run or wait for its end, "
                        "then start this one."
                    )
                if now - looked >= min(EACH, limit / 2):
                    looked, running = now, tasks()
                    if running or (running == 0 and holders):
                        silent = now
                if now - silent >= limit:
                    raise WaitTimeout(
                        f"Waited {limit:g} s for {what}, but Spark has not answered, and runs no "
                        "task for it. Nothing was started. See whether Spark has free slots and "
                        "the files answer. If it takes that long, give it more: "
                        f'tos.connect(config={{"{START_TIMEOUT}": "3600"}}).'
                    )
        except BaseException:
            # Not waited for: a user who interrupts wants to have the prompt back.
            in_thread(group, partial(cancel, self._sc, group))
            raise
        return answer.result()


def _start_timeout(sc: SparkContext) -> float:
    """Return the setting in seconds; raise ConfigError if it is not a positive number."""
    value = setting(sc, START_TIMEOUT, "600").strip()
    try:
        seconds = float(value.removesuffix("s"))
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigError(f"{START_TIMEOUT}: expected seconds such as 600, got {value!r}.")
    return seconds
