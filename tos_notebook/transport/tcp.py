"""Frames over plain TCP.

Sockets block and release the GIL, payloads go from the kernel straight to where they
belong, and time limits are the kernel's own, since Python's would cost a poll per call.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios

from ..errors import ProtocolError
from ..wire.frames import HEADER_SIZE, Header, decode_header
from .sockets import SocketChannel, gone


class TcpChannel(SocketChannel[socket.socket]):
    """One end of a TCP connection; see `SocketChannel`."""

    def _limit_waits(self, sock: socket.socket) -> None:
        seconds, fraction = divmod(self._timeout, 1)
        limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def send(self, head: bytes, payload: memoryview | None) -> None:
        """Send one frame."""
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

    def fileno(self) -> int:
        """Return the socket's file descriptor."""
        return self._sock.fileno()

    def look(self) -> Header | None:
        """Take what has come, without waiting; return the header of a whole frame."""
        if self._owes():
            return None
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
        return header

    def _owes(self) -> bool:
        """Return whether the peer has yet to take what was sent: more could wait for it."""
        try:
            return any(fcntl.ioctl(self._sock, termios.TIOCOUTQ, bytes(4)))
        except OSError:
            return True

    def _receive(self, target: memoryview, whole: bool = False) -> int:
        try:
            got = self._sock.recv_into(target, 0, socket.MSG_WAITALL if whole else 0)
        except BlockingIOError:
            raise self._late("send") from None
        except OSError as error:
            raise gone(self.peer, error) from error
        if not got:
            raise gone(self.peer)
        return got
