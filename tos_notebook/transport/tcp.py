"""Frames over plain TCP.

Sockets block and release the GIL, payloads go from the kernel straight to where they
belong, and time limits are the kernel's own, since Python's would cost a poll per call.
"""

from __future__ import annotations

import socket
import struct

from ..errors import ProtocolError
from ..wire.frames import HEADER_SIZE, Header, decode_header
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
        return b"" if sent == sum(map(len, parts)) else b"".join(parts)[sent:]

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

    def look(self) -> Header | None:
        """Take what has come, without waiting; return the header of a whole frame."""
        try:
            self._had = self._sock.recv_into(self._chunk, 0, socket.MSG_DONTWAIT)
            if self._had < HEADER_SIZE:
                return None
            header = decode_header(self._chunk)
        except (OSError, ProtocolError):
            # What is wrong, `receive_head` will find as well.
            return None
        if self._had < HEADER_SIZE + header.body + header.payload:
            return None
        self._header = header
        self._hurried = True
        return header

    def _take(self, target: memoryview, whole: bool) -> int:
        return self._sock.recv_into(target, 0, socket.MSG_WAITALL if whole else 0)
