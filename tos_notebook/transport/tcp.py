"""Frames over plain TCP.

Sockets block and release the GIL, payloads go from the kernel straight to where they
belong, and time limits are the kernel's own, since Python's would cost a poll per call.
"""

from __future__ import annotations

import socket
import struct

from ..wire.frames import Header
from ..wire.whole import Whole, read_whole
from .sockets import SocketChannel, gone


class TcpChannel(SocketChannel[socket.socket]):
    """One end of a TCP connection; see `SocketChannel`."""

    _hurried = False
    """Whether the next frame is the answer to one that was looked at: it does not wait."""
    _unsent = b""
    """What of that answer the peer had no room for."""

    def _limit_waits(self, sock: socket.socket) -> None:
        seconds, fraction = divmod(self._timeout, 1)
        limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def send(self, head: bytes, payload: memoryview | None) -> None:
        """Send one frame; see `Watched.owes` for what answers one that was looked at."""
        if self._hurried:
            self._hurried = False
            self._unsent = self._send_some(head, payload)
            return
        try:
            if payload is None:
                self._sock.sendall(head)
                return
            sent = self._sock.sendmsg((head, payload))
            if sent < len(head):
                self._sock.sendall(head[sent:])
                sent = len(head)
            if sent < len(head) + payload.nbytes:
                self._sock.sendall(payload[sent - len(head) :])
        except BlockingIOError:
            raise self._late("take what was sent") from None
        except OSError as error:
            raise gone(self.peer, error) from error

    def _send_some(self, head: bytes, payload: memoryview | None) -> bytes:
        """Send what the kernel takes at once; return the rest."""
        parts = (head,) if payload is None else (head, payload)
        try:
            sent = self._sock.sendmsg(parts, (), socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise gone(self.peer, error) from error
        if sent == len(head) + (0 if payload is None else len(payload)):
            return b""
        return b"".join(parts)[sent:]

    @property
    def owes(self) -> bool:
        """Whether a part of the last answer is still to be sent."""
        return bool(self._unsent)

    def receive_head(self) -> tuple[Header, bytes]:
        """Wait for a frame; send first what is left of the answer before it."""
        if self._unsent:
            rest, self._unsent = self._unsent, b""
            self.send(rest, None)
        return super().receive_head()

    def fileno(self) -> int:
        """Return the socket's file descriptor."""
        return self._sock.fileno()

    def look(self) -> Whole | None:
        """Take what has come, without waiting; return a whole frame that is answered at once."""
        try:
            got = self._sock.recv_into(self._chunk, 0, socket.MSG_DONTWAIT)
        except OSError:
            # What is wrong, `receive_head` will find as well.
            return None
        whole = read_whole(self._chunk, got)
        self._hurried = whole is not None
        self._had = 0 if self._hurried else got
        return whole

    def _take(self, target: memoryview, whole: bool) -> int:
        return self._sock.recv_into(target, 0, socket.MSG_WAITALL if whole else 0)
