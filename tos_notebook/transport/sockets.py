"""What channels over sockets share: frames from a stream of bytes, and its time limits."""

from __future__ import annotations

import logging
import math
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from ipaddress import ip_address
from time import monotonic
from typing import Generic, TypeVar

from ..errors import ConnectionClosed, ConnectTimeout, RemoteProtocolError
from ..wire.frames import HEADER_SIZE, Header, decode_header
from ..wire.whole import Whole, read_whole
from .auth import Handshake
from .fast_path import Peer
from .secured import SecuredSocket

log = logging.getLogger(__name__)

SLOWEST = 16_384
"""Bytes a second. A frame that comes slower is given up, however steadily it drips."""

_CHUNK = 65_536
_DISCARD_TIMEOUT = 5.0
_KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))

Connected = socket.socket | SecuredSocket
Wire = TypeVar("Wire", bound=Connected)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds that a peer may take.

    Attributes
    ----------
    transfer : float
        Without a byte, after which a transfer under way has failed.
    patience : float
        Until a transfer begins, if more than `transfer`, as long as the peer's host lives.
    handshake : float
        To prove the secret; to connect may take as long again.
    """

    transfer: float = 60.0
    patience: float = math.inf
    handshake: float = 5.0


class SocketChannel(ABC, Generic[Wire]):
    """One end of a connected socket; see `base.Watched`.

    Parameters
    ----------
    sock : socket or SecuredSocket
        Connected, and owned from now on.
    peer : str
        The other end's name.
    timeout : float
        Seconds without a byte after which a transfer has failed.
    patience : float
        Seconds to wait for the begin of a transfer, if more than `timeout`, as long as the peer's
        host lives.
    """

    def __init__(self, sock: Wire, peer: str, timeout: float, patience: float) -> None:
        self.peer = peer
        self._sock = sock
        self._timeout = timeout
        self._patience = patience
        self._chunk = memoryview(bytearray(_CHUNK))
        self._rest = self._chunk[:0]
        # Bytes of the next frame in the chunk, if a thread has looked.
        self._had = 0
        # Seconds that were waited for the next frame so far.
        self._waited = 0.0
        # Whether the next frame is the answer to one that was looked at: it does not wait.
        self._hurried = False
        # What of that answer, as the kernel gets it, the peer had no room for.
        self._unsent = b""

    @property
    def host(self) -> str:
        """See `Channel.host`."""
        return str(self._sock.getsockname()[0])

    def shake_hands(self, handshake: Handshake, deadline: float) -> None:
        """Run this side of a handshake.

        Raises
        ------
        ConnectTimeout
            It was not over by a deadline of `time.monotonic`, however the peer's bytes came.
        ConnectionClosed
            The peer closed the connection.
        """
        try:
            outgoing, expected = next(handshake)
            while True:
                limit(self._sock, deadline)
                self._sock.sendall(outgoing)
                outgoing, expected = handshake.send(self._receive_by(expected, deadline))
        except StopIteration:
            return
        except TimeoutError:
            raise unfinished(self.peer) from None
        except OSError as error:
            raise gone(self.peer, error) from error

    def _receive_by(self, nbytes: int, deadline: float) -> bytes:
        received = b""
        while len(received) < nbytes:
            limit(self._sock, deadline)
            part = self._sock.recv(nbytes - len(received))
            if not part:
                raise gone(self.peer)
            received += part
        return received

    def configure(self) -> None:
        """Set the socket up for frames, once the peer has been let in."""
        sock = self._sock
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A peer that has vanished is noticed.
            for name, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", int(self._timeout * 1e3))):
                # Names that not every system has.
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            self._limit_waits(sock)
        except OSError as error:
            raise gone(self.peer, error) from error

    @abstractmethod
    def _limit_waits(self, sock: Wire) -> None:
        """Let a call that waits for longer than the timeout fail."""

    def send(self, head: bytes, payload: memoryview | None) -> None:
        """Send one frame; see `Watched.owes` for what answers one that was looked at."""
        try:
            if self._hurried:
                self._hurried = False
                self._unsent = self._send_now(head, payload)
            else:
                self._send(head, payload)
        except (BlockingIOError, TimeoutError):
            raise self._late("take what was sent") from None
        except OSError as error:
            raise gone(self.peer, error) from error

    @abstractmethod
    def _send(self, head: bytes, payload: memoryview | None) -> None:
        """Send one frame."""

    @abstractmethod
    def _send_now(self, head: bytes, payload: memoryview | None) -> bytes:
        """Send of one frame what the kernel takes at once; return the rest."""

    @abstractmethod
    def _send_rest(self, rest: bytes) -> None:
        """Send what `_send_now` has returned."""

    @abstractmethod
    def _take(self, target: memoryview, whole: bool) -> int:
        """Receive some bytes; if it can be had, all that `target` takes. None at the end."""

    @abstractmethod
    def _take_now(self, target: memoryview) -> int:
        """Receive what has come, of a socket that can be read; see `_take`."""

    @property
    def owes(self) -> bool:
        """Whether a part of the last answer is still to be sent."""
        return bool(self._unsent)

    @property
    def fast(self) -> Peer | None:
        """See `Watched.fast`: what is encrypted takes no fast path."""
        return None

    def fileno(self) -> int:
        """Return the socket's file descriptor."""
        return self._sock.fileno()

    def look(self) -> Whole | None:
        """Take what has come, without waiting; return a whole frame that is answered at once."""
        try:
            got = self._had or self._take_now(self._chunk)
        except OSError:
            # What is wrong, `receive_head` will find as well.
            return None
        whole = read_whole(self._chunk, got)
        self._hurried = whole is not None
        self._had = 0 if self._hurried else got
        return whole

    def _receive(self, target: memoryview, whole: bool = False) -> int:
        """Receive as `_take` does, but at least one byte."""
        try:
            got = self._take(target, whole)
        except (BlockingIOError, TimeoutError):
            raise self._late("send") from None
        except OSError as error:
            raise gone(self.peer, error) from error
        if not got:
            raise gone(self.peer)
        return got

    def receive_head(self) -> tuple[Header, bytes]:
        """Wait for a frame; return its header and body.

        One call to the kernel brings a whole small frame, the begin of its payload included. What
        is left of the answer before it is sent first.
        """
        if self._unsent:
            self._send_what_is_left()
        chunk, got = self._chunk, self._first(self._chunk)
        if got < HEADER_SIZE:
            got = self._fill(chunk, got, HEADER_SIZE)
        header = decode_header(chunk)
        end = HEADER_SIZE + header.body
        if end > len(chunk):
            chunk = memoryview(bytearray(end))
            chunk[:got] = self._chunk[:got]
        if got < end:
            got = self._fill(chunk, got, end)
        if got - end > header.payload:
            raise RemoteProtocolError(
                f"Expected {self.peer} to wait for its answer, but it sent "
                f"{got - end - header.payload} bytes beyond the frame."
            )
        self._rest = chunk[end:got]
        return header, bytes(chunk[HEADER_SIZE:end])

    def _send_what_is_left(self) -> None:
        rest, self._unsent = self._unsent, b""
        try:
            self._send_rest(rest)
        except (BlockingIOError, TimeoutError):
            raise self._late("take what was sent") from None
        except OSError as error:
            raise gone(self.peer, error) from error

    def receive_payload(self, target: memoryview) -> None:
        """Fill `target` with the payload of the last head."""
        got = len(self._rest)
        target[:got] = self._rest
        if got < target.nbytes:
            self._fill(target, got, target.nbytes)

    def receive(self, target: memoryview) -> None:
        """Fill `target` with what comes next, on a channel without frames.

        One thread may receive while another one sends.
        """
        got = self._first(target)
        if got < target.nbytes:
            self._fill(target, got, target.nbytes)

    def discard(self, nbytes: int) -> None:
        """Throw away the last head's payload, for a few seconds at most."""
        left = nbytes - len(self._rest)
        deadline = monotonic() + _DISCARD_TIMEOUT
        while left > 0 and monotonic() < deadline:
            left -= self._receive(self._chunk[: min(left, len(self._chunk))])

    def detach(self) -> Wire:
        """Return the socket, which is the caller's from now on; nothing was received before."""
        return self._sock

    def shutdown(self) -> None:
        """End the stream and wake the threads that wait on it."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("%s had ended before: %s", self.peer, error)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    def _first(self, target: memoryview) -> int:
        if self._had:
            got, self._had = self._had, 0
            return got
        waited, self._waited = self._waited, 0.0
        while not waited or waited < self._patience:
            try:
                return self._receive(target)
            except ConnectTimeout:
                waited += self._timeout
        raise self._late("send")

    def _fill(self, target: memoryview, got: int, nbytes: int) -> int:
        got += self._receive(target[got:nbytes], whole=True)
        if got < nbytes:
            deadline = monotonic() + self._timeout + (nbytes - got) / SLOWEST
            while got < nbytes:
                if monotonic() > deadline:
                    raise ConnectTimeout(
                        f"Expected {self.peer} to send a frame at {SLOWEST} bytes/s or more, but "
                        f"{nbytes - got} bytes are still missing. Check the network to it."
                    )
                got += self._receive(target[got:nbytes], whole=True)
        return got

    def _late(self, what: str) -> ConnectTimeout:
        return ConnectTimeout(
            f"Expected {self.peer} to {what} within {self._timeout} s, but nothing moved. "
            "Check the network to it, and its log for what it waits for."
        )


def is_loopback(address: str) -> bool:
    """Whether what goes to an IP address never leaves this host."""
    return ip_address(address.partition("%")[0]).is_loopback


def limit(sock: Connected, deadline: float) -> None:
    """Let a socket's next call end at a deadline; raise TimeoutError if it has passed."""
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)


def unfinished(peer: str) -> ConnectTimeout:
    """Return the error for a handshake that takes too long."""
    return ConnectTimeout(
        f"Expected {peer} to finish the handshake in time. "
        "Check that host and port are those of this session's server."
    )


def gone(peer: str, error: OSError | None = None) -> ConnectionClosed:
    """Return the error for a connection that has ended."""
    reason = f": {error}" if error else ""
    return ConnectionClosed(f"The connection to {peer} is closed{reason}.")
