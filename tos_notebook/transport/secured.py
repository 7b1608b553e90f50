"""A socket with TLS on top that calls the kernel seldom.

Python's own `ssl.SSLSocket` goes to the kernel twice for each record of 16 KiB that it reads, and
once for each that it writes; for a model of some hundred kB that is most of what TLS costs.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable
from typing import cast

_WRITTEN = 1 << 18
"""Bytes that are encrypted before they are sent."""

_READ = 1 << 17
"""Bytes that are received before they are decrypted."""

_GREETING = 1 << 12
"""Likewise, of a peer that has not been let in."""


class SecuredSocket:
    """As much of a socket as channels and gates use; what it raises are a socket's errors.

    After the handshake one thread may send while another one receives. The connected socket is
    owned from now on.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, server_side: bool) -> None:
        self.raw = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side)
        self._buffer = memoryview(bytearray(_GREETING))
        # OpenSSL has one state for both directions. It is held for no longer than a call of its.
        self._state = threading.Lock()
        self._ended = False
        self.fileno, self.getsockname = sock.fileno, sock.getsockname
        self.settimeout = sock.settimeout
        self.setsockopt = sock.setsockopt
        self.close = sock.close

    def do_handshake(self) -> None:
        """Agree on keys.

        Raises
        ------
        BlockingIOError
            More must come first, and the socket does not block.
        ssl.SSLError
            The peer speaks another protocol, or has left.
        """
        while True:
            try:
                self._tls.do_handshake()
                self._flush()
                return
            except ssl.SSLWantReadError:
                self._flush()
                self._feed()
            except ssl.SSLError:
                # The peer is to read why.
                self._flush()
                raise

    def expect_frames(self) -> None:
        """Make room for what a peer sends that has been let in."""
        self._buffer = memoryview(bytearray(_READ))

    def certificate(self) -> bytes:
        """Return the peer's certificate in DER; empty if it has none."""
        return self._tls.getpeercert(binary_form=True) or b""

    def sendall(self, data: bytes | memoryview) -> None:
        """Send all of it; the timeout is for each piece of some hundred kB."""
        view = memoryview(data)
        for start in range(0, view.nbytes, _WRITTEN):
            self.raw.sendall(self.encrypt(view[start : start + _WRITTEN]))

    def encrypt(self, data: bytes | memoryview) -> bytes:
        """Return what to send in place of some bytes; nothing else may be sent before it."""
        with self._state:
            self._tls.write(data)
            return self._outgoing.read()

    def send_now(self, sealed: bytes) -> int:
        """Send what the kernel takes at once of what `encrypt` has returned; return how many."""
        try:
            # A socket with a timeout would wait, whatever flags a call of its own has.
            return os.write(self.raw.fileno(), sealed)
        except BlockingIOError:
            return 0

    def recv_into(self, target: memoryview) -> int:
        """Receive what has come, at least one byte; return how many, 0 at the end of the stream.

        Whatever TLS itself has to say to it goes with what is sent next, as the standard has it.
        """
        with self._state:
            there = self._incoming.pending or self._tls.pending()
        if not (there or self._ended):
            # To be told so by an error would take longer.
            self._feed()
        while not (got := self._decrypt(target)) and not self._ended:
            self._feed()
        return got

    def recv_now(self, target: memoryview) -> int:
        """Receive what has come, of a socket that can be read; return how many, perhaps 0."""
        self._feed()
        return self._decrypt(target)

    def _decrypt(self, target: memoryview) -> int:
        """Decrypt what is here, as far as it is whole records; return how many bytes."""
        got, read = 0, cast("Callable[[int, memoryview], int]", self._tls.read)
        try:
            with self._state:
                while got < target.nbytes:
                    # A record, or what is left of one; nothing once the peer has taken leave.
                    part = read(target.nbytes - got, target[got:])
                    if not part:
                        self._ended = True
                        break
                    got += part
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            # Frames say how long they are: none is cut off unnoticed.
            self._ended = True
        return got

    def recv(self, nbytes: int) -> bytes:
        """Receive some bytes; return none at the end of the stream."""
        buffer = bytearray(nbytes)
        return bytes(buffer[: self.recv_into(memoryview(buffer))])

    def shutdown(self, how: int) -> None:
        """End the stream below TLS, whose state must not change under a thread that reads."""
        self.raw.shutdown(how)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self.raw.sendall(self._outgoing.read())

    def _feed(self) -> None:
        got = self.raw.recv_into(self._buffer)
        if got:
            self._incoming.write(self._buffer[:got])
        else:
            self._incoming.write_eof()
