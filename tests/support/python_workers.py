"""Python workers of a shared Spark that only some tests use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAME = "TOS_TESTS_WORKERS"


@contextmanager
def own_python_workers(sc: Any, name: str = "nodes") -> Iterator[Any]:
    """Let tasks run in Python workers in which no other test has run TensorFlow.

    A node of a TensorFlow cluster is a fork of such a worker. Where its threads run, a node is a
    new Python that imports TensorFlow again; tests/unit/nodes/test_spawn.py starts nodes both ways.
    """
    # Spark has other workers, and another process that forks them, for another environment.
    before = dict(sc.environment)
    sc.environment[NAME] = name
    try:
        yield sc
    finally:
        sc.environment.clear()
        sc.environment.update(before)
