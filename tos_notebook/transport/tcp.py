"""The transport between processes: frames over TCP, a thread per connection.

Sockets block and release the GIL, payloads go from the kernel straight to where they
belong, and time limits are the kernel's own, since Python's would cost a poll per call.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
from time import monotonic

from ..errors import ConnectionClosed, ConnectTimeout, RemoteProtocolError, TransportError
from ..wire.frames import HEADER_SIZE, Header, decode_header
from .auth import Handshake, check_secret, client_handshake, server_handshake
from .base import Address, HandlerFactory
from .client import MAX_PAYLOAD, ChannelConnection
from .server import ConnectionThreads, join_all

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT = 5.0
MAX_PENDING = 64
"""Handshakes under way at a time; more clients wait in the system's queue."""

_CHUNK = 65_536
_BACKLOG = 256
_DISCARD_TIMEOUT = 5.0
_KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
_ACCEPT_POLL = 1.0
_ACCEPT_RETRY = 0.1


class TcpChannel:
    """One end of a TCP connection; see `base.Channel`.

    Parameters
    ----------
    sock : socket
        A connected socket, owned from now on.
    peer : str
        The other end's name.
    timeout : float
        Seconds without a byte after which a transfer has failed.
    patient : bool
        Whether to wait for the begin of a frame for as long as the peer lives.
    """

    def __init__(self, sock: socket.socket, peer: str, timeout: float, patient: bool) -> None:
        self.peer = peer
        self._sock = sock
        self._timeout = timeout
        self._patient = patient
        self._chunk = memoryview(bytearray(_CHUNK))
        self._rest = self._chunk[:0]

    def shake_hands(self, handshake: Handshake, seconds: float) -> None:
        """Run one side of a handshake, then set the socket up for frames.

        Parameters
        ----------
        handshake : Handshake
            This side's generator.
        seconds : float
            For the whole of it, however slowly the peer's bytes come.

        Raises
        ------
        ConnectTimeout
            The peer took longer.
        ConnectionClosed
            The peer closed the connection.
        """
        deadline = monotonic() + seconds
        try:
            outgoing, expected = next(handshake)
            while True:
                self._limit(deadline)
                self._sock.sendall(outgoing)
                outgoing, expected = handshake.send(self._receive_by(expected, deadline))
        except StopIteration:
            self._configure()
        except TimeoutError:
            raise ConnectTimeout(
                f"Expected {self.peer} to finish the handshake within {seconds} s. "
                "Check that host and port are those of this session's server."
            ) from None
        except OSError as error:
            raise self._gone(error) from error

    def _limit(self, deadline: float) -> None:
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)

    def _receive_by(self, nbytes: int, deadline: float) -> bytes:
        received = b""
        while len(received) < nbytes:
            self._limit(deadline)
            part = self._sock.recv(nbytes - len(received))
            if not part:
                raise self._gone()
            received += part
        return received

    def _configure(self) -> None:
        """Let the kernel keep the time, and notice a peer that has vanished."""
        sock = self._sock
        seconds, fraction = divmod(self._timeout, 1)
        limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
        try:
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for name, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", int(self._timeout * 1e3))):
                # Names that not every system has.
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        except OSError as error:
            raise self._gone(error) from error

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
            raise self._gone(error) from error

    def receive_head(self) -> tuple[Header, bytes]:
        """Wait for a frame; return its header and body.

        One call to the kernel brings a whole small frame, the begin of its payload included.
        """
        chunk, got = self._chunk, self._first()
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

    def receive_payload(self, target: memoryview) -> None:
        """Fill `target` with the payload of the last head."""
        got = len(self._rest)
        target[:got] = self._rest
        if got < target.nbytes:
            self._fill(target, got, target.nbytes)

    def discard(self, nbytes: int) -> None:
        """Throw away the last head's payload, for a few seconds at most."""
        left = nbytes - len(self._rest)
        deadline = monotonic() + _DISCARD_TIMEOUT
        while left > 0 and monotonic() < deadline:
            left -= self._receive(self._chunk[: min(left, len(self._chunk))])

    def shutdown(self) -> None:
        """End the stream and wake whoever waits on it."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("%s had ended before: %s", self.peer, error)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    def _first(self) -> int:
        while True:
            try:
                return self._receive(self._chunk)
            except ConnectTimeout:
                if not self._patient:
                    raise

    def _fill(self, target: memoryview, got: int, nbytes: int) -> int:
        while got < nbytes:
            got += self._receive(target[got:nbytes], socket.MSG_WAITALL)
        return got

    def _receive(self, target: memoryview, flags: int = 0) -> int:
        try:
            got = self._sock.recv_into(target, 0, flags)
        except BlockingIOError:
            raise self._late("send") from None
        except OSError as error:
            raise self._gone(error) from error
        if not got:
            raise self._gone()
        return got

    def _late(self, what: str) -> ConnectTimeout:
        return ConnectTimeout(
            f"Expected {self.peer} to {what} within {self._timeout} s, but nothing moved. "
            "Check the network to it, and its log for what it waits for."
        )

    def _gone(self, error: OSError | None = None) -> ConnectionClosed:
        reason = f": {error}" if error else ""
        return ConnectionClosed(f"The connection to {self.peer} is closed{reason}.")


class TcpListener:
    """Serves connections from other processes; see `base.Listener`.

    The port is taken at once, so that an address is known before anybody needs it.

    Parameters
    ----------
    factory : HandlerFactory
        Makes the handler of each connection that has proved the secret.
    secret : bytes
        The session's secret.
    host : str
        The interface to listen on, all of them if empty.
    port : int
        The port, any free one if 0.
    timeout : float
        Seconds without a byte after which a transfer under way has failed.
    handshake_timeout : float
        Seconds for a client to prove the secret.
    max_pending : int
        Clients that may be at it at a time.

    Raises
    ------
    TransportError
        The address cannot be listened on.
    AuthenticationError
        The secret is too short.
    """

    def __init__(
        self,
        factory: HandlerFactory,
        secret: bytes,
        host: str = "127.0.0.1",
        port: int = 0,
        timeout: float = 60.0,
        handshake_timeout: float = HANDSHAKE_TIMEOUT,
        max_pending: int = MAX_PENDING,
    ) -> None:
        check_secret(secret)
        self._secret = secret
        self._timeout = timeout
        self._handshake_timeout = handshake_timeout
        self._pending = threading.Semaphore(max_pending)
        self._threads = ConnectionThreads(factory)
        self._closing = threading.Event()
        name = "tos-server-accept"
        self._acceptor = threading.Thread(target=self._accept, name=name, daemon=True)
        self._sock = _listen(host, port)
        self.address = Address(*self._sock.getsockname()[:2])

    def start(self) -> None:
        """Begin to accept connections."""
        self._acceptor.start()

    def close(self, timeout: float = 5.0) -> None:
        """Accept no more, abort the connections and wait for their threads.

        Raises
        ------
        WaitTimeout
            A thread did not end within `timeout` seconds.
        """
        self._closing.set()
        try:
            # On Linux this wakes the acceptor; elsewhere it looks up by itself.
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("Not listening any more: %s", error)
        self._threads.close(timeout)
        if self._acceptor.ident is not None:
            join_all([self._acceptor], timeout)
        self._sock.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            if not self._pending.acquire(timeout=_ACCEPT_POLL):
                continue
            try:
                self._admit_next()
            except TimeoutError:
                self._pending.release()
            except (OSError, TransportError) as error:
                self._pending.release()
                if not self._closing.wait(_ACCEPT_RETRY):
                    log.warning("A connection could not be accepted: %s", error)

    def _admit_next(self) -> None:
        sock, address = self._sock.accept()
        peer = f"{address[0]}:{address[1]}"
        channel = TcpChannel(sock, peer, self._timeout, patient=True)
        self._threads.spawn(channel, lambda: self._admit(channel))

    def _admit(self, channel: TcpChannel) -> None:
        try:
            channel.shake_hands(server_handshake(self._secret), self._handshake_timeout)
        finally:
            self._pending.release()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise TransportError(
            f"Cannot listen on {host}:{port}: {error}. Set `server_host` to an address of this "
            "machine, and `server_port` to a free port, or to 0 for any."
        ) from error
    sock.settimeout(_ACCEPT_POLL)
    return sock


def connect_tcp(
    host: str,
    port: int,
    secret: bytes,
    timeout: float = 10.0,
    request_timeout: float = 60.0,
    max_payload: int = MAX_PAYLOAD,
) -> ChannelConnection:
    """Connect to a listener and prove the secret to it.

    Parameters
    ----------
    host, port : str, int
        The server's contact address.
    secret : bytes
        The session's secret.
    timeout : float
        Seconds to connect, and again to shake hands.
    request_timeout : float
        Seconds without a byte after which a request has failed.
    max_payload : int
        Bytes that an answer may bring when no buffer is given for it.

    Raises
    ------
    ConnectTimeout
        Nobody answered in time.
    TransportError
        The address cannot be reached, or nobody listens there.
    AuthenticationError
        One side does not hold the other's secret.
    ProtocolError
        Whoever listens there is none of ours, or of another version.
    """
    sock = _dial(host, port, timeout)
    channel = TcpChannel(sock, f"{host}:{port}", request_timeout, patient=False)
    try:
        channel.shake_hands(client_handshake(secret), timeout)
    except BaseException:
        channel.close()
        raise
    return ChannelConnection(channel, max_payload)


def _dial(host: str, port: int, timeout: float) -> socket.socket:
    hint = "Set `server_host` to an address of the driver that executors can reach."
    try:
        return socket.create_connection((host, port), timeout)
    except TimeoutError:
        raise ConnectTimeout(
            f"Expected the server at {host}:{port} to answer within {timeout} s. {hint}"
        ) from None
    except (OSError, OverflowError) as error:
        message = f"Cannot reach the server at {host}:{port}: {error}. {hint}"
        raise TransportError(message) from error
