"""A node's process as its keeper has it: what it tells and prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from ..errors import WorkerError
from .roster import DONE, LONGEST_LINE, LOST, STOPPED
from .spawn import Process

MOST_NEWS = 200
"""Lines of output that the driver is told at once, the last ones."""

LONGEST_PART = 1 << 16
"""Bytes without a line's end after which they count as a line."""

GRACE = 2.0
"""Seconds for a node to end after an interrupt, and again after a request to terminate."""


class Kept:
    """A node's process: what it tells and prints, and how it ends.

    Parameters
    ----------
    process : Process
    echo : bool
        Whether what it prints is printed here, too.
    """

    def __init__(self, process: Process, echo: bool = True) -> None:
        self.process, self._echoes = process, echo
        self._orders = os.fdopen(process.orders, "wb")
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=MOST_NEWS)
        self._told: dict[str, Any] = {"rows": 0, "feeding": True}
        self._inbox = threading.Event()
        self._stopped = False
        self._code: int | None = None
        self._threads = [
            threading.Thread(target=read, args=(descriptor,), daemon=True)
            for read, descriptor in ((self._hear, process.news), (self._echo, process.output))
        ]
        for thread in self._threads:
            thread.start()

    def _hear(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as news:
            for line in news:
                with self._lock:
                    self._told.update(json.loads(line))
                self._inbox.set()
        self._inbox.set()

    def _echo(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as output:
            # In parts, where a progress bar never ends its line.
            for line in iter(partial(output.readline, LONGEST_PART), b""):
                text = line.decode("utf-8", "replace").rstrip()
                with self._lock:
                    self._lines.append(text[:LONGEST_LINE])
                # To the executor's log, where one would look.
                if self._echoes:
                    with suppress(OSError):
                        os.write(2, line)

    def wait_for_inbox(self, timeout: float = 60.0) -> dict[str, Any]:
        """Wait until the node takes rows; return where.

        Raises
        ------
        WorkerError
            Its process has ended, or needs too long.
        """
        self._inbox.wait(timeout)
        if "inbox" not in self._told:
            for thread in self._threads:
                thread.join(GRACE)
            raise WorkerError("The process of the node did not begin.", frames=self.last_lines())
        return {key: self._told[key] for key in ("inbox", "fingerprint")}

    def last_lines(self) -> list[str]:
        """Return the last of what it printed."""
        with self._lock:
            return list(self._lines)[-20:]

    def news(self) -> dict[str, Any]:
        """Return what there is to tell the driver since the last call."""
        with self._lock:
            lines = list(self._lines)
            self._lines.clear()
            return {"lines": lines, "rows": self._told["rows"], "feeding": self._told["feeding"]}

    def order(self, order: Mapping[str, Any]) -> None:
        """Tell the node something; one that has ended does not hear it."""
        with suppress(OSError, ValueError):
            self._orders.write(json.dumps(order).encode() + b"\n")
            self._orders.flush()

    @property
    def ended(self) -> bool:
        """Whether its process has ended."""
        if self._code is None:
            pid, status = os.waitpid(self.process.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def stop(self) -> None:
        """End its process: an interrupt, a request to terminate, and then without asking."""
        self._stopped = True
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self._signal(number):
                return

    def _signal(self, number: signal.Signals) -> bool:
        if self.ended:
            return True
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)
        deadline = monotonic() + GRACE
        pause = threading.Event()
        while not self.ended and monotonic() < deadline:
            pause.wait(0.02)
        return self.ended

    def kill(self) -> None:
        """End its process at once if it still runs, and close the pipes."""
        self._signal(signal.SIGKILL)
        self.close_orders()
        for thread in self._threads:
            thread.join(GRACE)

    def close_orders(self) -> None:
        """Give no more orders: a node that waits for some ends."""
        with suppress(OSError):
            self._orders.close()

    def outcome(self) -> dict[str, Any]:
        """Return how it has ended, and why."""
        for thread in self._threads:
            thread.join(GRACE)
        told = self._told.get("outcome")
        if self._stopped:
            return {"outcome": STOPPED}
        if told is not None:
            return {"message": "", "frames": [], **self._told}
        return {
            "outcome": DONE if self._code == 0 else LOST,
            "message": f"The process of the node ended without a word: {_cause(self._code)}.",
            "frames": [],
        }


class KeptHere(Kept):
    """A node that runs in a thread of this process, and cannot be ended from outside."""

    def __init__(self, process: Process) -> None:
        self.over = threading.Event()
        super().__init__(process)

    @property
    def ended(self) -> bool:
        """Whether its function has ended."""
        return self.over.is_set()

    def stop(self) -> None:
        """Wait for its end."""
        self.over.wait()

    def kill(self) -> None:
        """Close the pipes."""
        self.close_orders()
        for thread in self._threads:
            thread.join(GRACE)


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = "; it may have run out of memory" if name == "SIGKILL" else ""
        return f"{name} ended it{hint}"
    return f"exit code {code}"
