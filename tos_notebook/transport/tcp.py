"""Frames over plain TCP.

Sockets block and release the GIL, payloads go from the kernel straight to where they
belong, and time limits are the kernel's own, since Python's would cost a poll per call.
"""

from __future__ import annotations

import socket
import struct

from ..common import native
from ..wire.frames import REPLY_BEGINS, Header
from ..wire.messages import Reply
from ..wire.packed import plain_reply
from ..wire.whole import Whole
from .fast_path import Peer, new_peer
from .sockets import SocketChannel

_LATE = -2
"""Instead of a number of bytes: none has come in time."""


class TcpChannel(SocketChannel[socket.socket]):
    """One end of a TCP connection; see `SocketChannel`."""

    _peer: Peer | None = None

    @property
    def fast(self) -> Peer | None:
        """See `Watched.fast`."""
        if self._peer is None:
            self._peer = new_peer(self.fileno(), self._chunk)
        return self._peer

    def look(self) -> Whole | None:
        """See `Watched.look`; an answer that is half sent is not waited for."""
        self._take_over()
        return None if self._unsent else super().look()

    def receive_head(self) -> tuple[Header, bytes]:
        """See `Channel.receive_head`."""
        self._take_over()
        return super().receive_head()

    def _take_over(self) -> None:
        """Take what the fast path has received and left, or could not send."""
        if self._peer is not None:
            self._had = max(self._had, self._peer.take_received())
            self._unsent = self._unsent or self._peer.take_unsent()

    def receive_reply(self, sequence: int, target: memoryview | None) -> Reply | None:
        """See `ReplyChannel.receive_reply`."""
        if native.extension is None:
            return None
        found = native.extension.receive_reply(
            self._sock.fileno(), self._chunk, target, REPLY_BEGINS, sequence
        )
        if type(found) is tuple:
            return plain_reply(*found)
        self._had, self._waited = max(0, found), self._timeout * (found == _LATE)
        return None

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
