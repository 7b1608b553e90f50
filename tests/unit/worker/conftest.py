"""Fixtures of the worker's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.worker.support import Served, nothing_left
from tos_notebook.coordination.coordinator import Coordinator

Serve = Callable[..., Served]


@pytest.fixture(autouse=True)
def shared_memory(tmp_path: Path) -> Iterator[Path]:
    """Where segments lie; empty after every test, whose threads have ended, too."""
    with nothing_left(tmp_path / "shared") as folder:
        yield folder


@pytest.fixture
def serve(shared_memory: Path) -> Iterator[Serve]:
    """Put a training behind a listener, for the test's time."""
    opened: list[Served] = []

    def start(training: Coordinator, kind: str = "inproc") -> Served:
        opened.append(Served(training, kind))
        return opened[-1]

    yield start
    for served in opened:
        served.close()
