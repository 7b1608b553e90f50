"""How many bytes of parameters a shard has received and sent."""

from __future__ import annotations

import threading


class Traffic:
    """Bytes of parameters that a shard has received and sent. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._received = self._sent = 0

    def add(self, received: int = 0, sent: int = 0) -> None:
        """Count bytes."""
        with self._lock:
            self._received += received
            self._sent += sent

    def read(self) -> tuple[int, int]:
        """Return the bytes received and sent so far."""
        with self._lock:
            return self._received, self._sent
