"""Calls into Java that end: py4j itself waits without a limit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

from ..errors import WaitTimeout

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

SILENCE = 10.0
"""Seconds after which a call that is waited for is named."""


def aside(call: Callable[[], Result], name: str) -> Future[Result]:
    """Make a call on a thread of its own, which does not keep the process alive.

    Parameters
    ----------
    call : callable
    name : str
        Of the thread.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def within(seconds: float, call: Callable[[], Result], what: str) -> Result:
    """Return what a call returns, or raise what it raises, if that comes in time.

    Parameters
    ----------
    seconds : float
    call : callable
        Left to itself if it takes longer.
    what : str
        Completes "waited for".

    Raises
    ------
    WaitTimeout
        It has not ended.
    """
    future = aside(call, "tos-java")
    if not wait({future}, seconds).done:
        raise WaitTimeout(
            f"Waited {seconds:g} s for {what}, but Spark's own process (the JVM) does not answer. "
            "If it does not come back, restart the kernel."
        )
    return future.result()


@contextmanager
def announced(what: str, after: float = SILENCE) -> Iterator[None]:
    """Log what is waited for, if the block takes long; it may be interrupted then.

    Parameters
    ----------
    what : str
        Completes "waits for".
    after : float
        Seconds.
    """
    text = "Nothing has come for %g s: this call still waits for %s. To give up, interrupt it."
    timer = threading.Timer(after, logger.warning, (text, after, what))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
