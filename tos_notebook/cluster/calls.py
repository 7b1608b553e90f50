"""Calls into Java: they end, where py4j waits without a limit, and say why they fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from ..common.threads import in_thread
from ..errors import WaitTimeout

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

SILENCE = 10.0
"""Seconds after which a call that is waited for is named."""

Hears = Callable[[str | None], None]

_hears: ContextVar[Hears | None] = ContextVar("hears", default=None)

WAITED = "Exception thrown in awaitResult"

CAUSE = "Caused by: "


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
    future = in_thread("tos-java", call)
    if not wait({future}, seconds).done:
        raise WaitTimeout(
            f"Waited {seconds:g} s for {what}, but Spark's own process (the JVM) does not answer. "
            "If it does not come back, restart the kernel."
        )
    return future.result()


@contextmanager
def announced(what: str, after: float = SILENCE) -> Iterator[None]:
    """Say what is waited for, if the block takes long; it may be interrupted then.

    It is logged, unless the block runs where `heard_by` names somebody who shows it.

    Parameters
    ----------
    what : str
        Completes "waits for".
    after : float
        Seconds.
    """
    text = "Nothing has come for %g s: this call still waits for %s. To give up, interrupt it."
    hears = _hears.get()
    tell = partial(logger.warning, text, after, what) if hears is None else partial(hears, what)
    timer = threading.Timer(after, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if hears is not None:
            hears(None)


@contextmanager
def heard_by(hears: Hears) -> Iterator[None]:
    """Let somebody show what the block waits for, if that takes long.

    Parameters
    ----------
    hears : callable
        Called from a thread with what is waited for, and with None once that has come.
    """
    before = _hears.set(hears)
    try:
        yield
    finally:
        _hears.reset(before)


def java_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the exceptions that a call into Java raises, and others to catch with them.

    py4j's own; and PySpark's, into which it turns some kinds once there was a SparkSession.
    """
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:
        # A Python that has Spark Connect alone.
        return PySparkException, *others
    return Py4JJavaError, PySparkException, *others


def java_text(error: BaseException) -> str:
    """Return all that is said, a Python worker's traceback included."""
    java = getattr(error, "java_exception", None)
    while java is not None:
        text, cause = str(java.getMessage() or java.toString()), java.getCause()
        if cause is None or not text.startswith(WAITED):
            return text
        # Java's own threads wrap what one of them raised.
        java = cause
    return str(error)


def reason(error: BaseException) -> str:
    """Return the first line of what is said, and what it was caused by in the first place."""
    lines = java_text(error).strip().splitlines()
    causes = [line for line in lines[1:] if line.startswith(CAUSE)]
    return " ".join([*lines[:1], *causes[-1:]]) or type(error).__name__
