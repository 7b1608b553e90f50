"""Threads: calls in some of their own, and the end of those that are known by their names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

LIMIT = 10.0
"""Seconds after which a test that waits has failed."""


def wait_for_end(name: str, limit: float = LIMIT) -> None:
    """Wait until every thread of this name has ended."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(limit)
            assert not thread.is_alive(), f"{name} has not ended within {limit:g} s"


class Aside:
    """A call in a thread, whose result or error is waited for."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except Exception as error:
            self._error = error

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(LIMIT)
        assert not self.goes_on, "the call did not end"
        if self._error is not None:
            raise self._error
        return self._value
