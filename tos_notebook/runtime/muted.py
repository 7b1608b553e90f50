"""Keep what TensorFlow says of its own work out of users' cells."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Let loggers report errors only, while the context is open.

    Parameters
    ----------
    *names : str
        Such as ``tensorflow``, which tells of every file that it writes, or ``absl``, which warns
        of gradients that are not asked for.
    """
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
