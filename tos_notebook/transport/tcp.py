"""Frames over plain TCP.

Sockets block and release the GIL, payloads go from the kernel straight to where they
belong, and time limits are the kernel's own, since Python's would cost a poll per call.
"""

from __future__ import annotations

import socket
import struct

from .sockets import SocketChannel


class TcpChannel(SocketChannel[socket.socket]):
    """One end of a TCP connection; see `SocketChannel`."""

    def _limit_waits(self, sock: socket.socket) -> None:
        seconds, fraction = divmod(self._timeout, 1)
        limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def _send(self, head: bytes, payload: memoryview | None) -> None:
        if payload is None:
            self._sock.sendall(head)
            return
        sent = self._sock.sendmsg((head, payload))
        if sent < len(head):
            self._sock.sendall(head[sent:])
            sent = len(head)
        if sent < len(head) + payload.nbytes:
            self._sock.sendall(payload[sent - len(head) :])

    def _send_now(self, head: bytes, payload: memoryview | None) -> bytes:
        parts = (head,) if payload is None else (head, payload)
        try:
            sent = self._sock.sendmsg(parts, (), socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        if sent == len(head) + (0 if payload is None else len(payload)):
            return b""
        return b"".join(parts)[sent:]

    def _send_rest(self, rest: bytes) -> None:
        self._sock.sendall(rest)

    def _take(self, target: memoryview, whole: bool) -> int:
        return self._sock.recv_into(target, 0, socket.MSG_WAITALL if whole else 0)

    def _take_now(self, target: memoryview) -> int:
        return self._sock.recv_into(target, 0, socket.MSG_DONTWAIT)
