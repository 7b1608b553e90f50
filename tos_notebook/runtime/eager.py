"""Run a piece of code eagerly, whatever mode the user's program put TensorFlow in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context


@contextmanager
def eagerly() -> Iterator[None]:
    """Execute eagerly inside.

    TF1-style code runs in a default graph, or has called ``disable_eager_execution``. The
    public ``tf.init_scope`` cannot undo the second, and stops gradient tapes.
    """
    if tf.executing_eagerly():
        yield
        return
    with context.eager_mode():
        yield


_default_graph: list[Any] = []
"""Keeps the graph of `enter_graph_mode` the default: collected, it would be left."""


def enter_graph_mode() -> None:
    """Make an empty graph this thread's default, unless TensorFlow is in graph mode already."""
    if tf.executing_eagerly():
        scope = tf.Graph().as_default()
        scope.__enter__()
        _default_graph.append(scope)
