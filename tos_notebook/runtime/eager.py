"""Run a piece of code eagerly, whatever mode TensorFlow is in, and without what it says of that.

TensorFlow is imported inside: who loads the extension has this module long before a model.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def eagerly() -> Iterator[None]:
    """Execute eagerly inside.

    TF1-style code runs in a default graph, or has called ``disable_eager_execution``. The
    public ``tf.init_scope`` cannot undo the second, and stops gradient tapes.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    if tf.executing_eagerly():
        yield
        return
    with context.eager_mode():
        yield


_default_graph: list[Any] = []
"""Keeps the graph of `enter_graph_mode` the default: collected, it would be left."""


def enter_graph_mode() -> None:
    """Make an empty graph this thread's default, unless TensorFlow is in graph mode already."""
    import tensorflow as tf

    if tf.executing_eagerly():
        scope = tf.Graph().as_default()
        scope.__enter__()
        _default_graph.append(scope)


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Let loggers report errors only, while the context is open.

    Parameters
    ----------
    *names : str
        Such as ``tensorflow``, which tells of every file that it writes, or ``absl``, which warns
        of gradients that no caller will ask for.
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
