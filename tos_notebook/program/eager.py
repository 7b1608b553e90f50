"""Run a piece of code eagerly, whatever mode the user's program put TensorFlow in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
