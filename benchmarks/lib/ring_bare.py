"""The mean of two processes' vectors over one bare socket: no frames, no secret, no weights.

What the machine can do: it works in pieces, without allocating, and sends while it receives.
"""

from __future__ import annotations

import select
import socket

import numpy as np
import numpy.typing as npt

PIECE = 1 << 18
_AT_ONCE = 1 << 20

Floats = npt.NDArray[np.float32]


class BareRing:
    """A ring of two.

    Parameters
    ----------
    sock : socket
        Connected to the other process.
    rank : int
        0 or 1.
    """

    def __init__(self, sock: socket.socket, rank: int) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._rank = rank
        self._piece = np.empty(PIECE // 4, np.float32)
        self._out = memoryview(b"")

    def reduce(self, vector: Floats) -> None:
        """Replace a vector by the mean of both."""
        middle = vector.size // 2
        halves = (slice(0, middle), slice(middle, vector.size))
        mine, other = halves[self._rank], halves[1 - self._rank]
        data, half = memoryview(vector).cast("B"), vector[mine]
        self._out = data[other.start * 4 : other.stop * 4]
        self._send()
        for start in range(0, half.size, self._piece.size):
            target = half[start : start + self._piece.size]
            piece = self._piece[: target.size]
            self._fill(memoryview(piece).cast("B"))
            np.add(target, piece, target)
            np.divide(target, 2, target)
        self._flush()
        self._out = data[mine.start * 4 : mine.stop * 4]
        self._send()
        self._fill(data[other.start * 4 : other.stop * 4])
        self._flush()

    def _send(self) -> bool:
        try:
            sent = self._sock.send(self._out[:_AT_ONCE], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        self._out = self._out[sent:]
        return True

    def _fill(self, target: memoryview) -> None:
        while self._out and target:
            moved = self._send()
            try:
                target = self._receive(target, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if not moved:
                    poll = select.poll()
                    poll.register(self._sock, select.POLLIN | select.POLLOUT)
                    poll.poll()
        while target:
            target = self._receive(target, socket.MSG_WAITALL)

    def _receive(self, target: memoryview, how: int) -> memoryview:
        got = self._sock.recv_into(target, 0, how)
        if not got:
            raise EOFError("The other process has left.")
        return target[got:]

    def _flush(self) -> None:
        while self._out:
            if not self._send():
                select.select([], [self._sock], [])
