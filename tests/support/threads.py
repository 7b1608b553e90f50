"""Threads by their names: what a test knows of one that it did not start itself."""

from __future__ import annotations

import threading


def wait_for_end(name: str, limit: float = 10.0) -> None:
    """Wait until every thread of this name has ended."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(limit)
            assert not thread.is_alive(), f"{name} has not ended within {limit:g} s"
