"""Messages of JSON with a payload of bytes, over a channel whose peer has proved the secret."""

from __future__ import annotations

import json
import logging
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..common.threads import join_all
from ..errors import DataError, RemoteProtocolError, TosError, WaitTimeout
from ..transport.acceptor import Acceptor
from ..transport.base import LOOPBACK, Address, Endpoint
from ..transport.dial import open_channel
from ..transport.sockets import SocketChannel, Timeouts

logger = logging.getLogger(__name__)

_HEAD = struct.Struct(">IQ")

MOST_TEXT = 1 << 22
"""Bytes of a message's JSON."""

MOST_PAYLOAD = 1 << 31
"""Bytes of a message's payload."""

Message = Mapping[str, Any]


class Talk:
    """One end of a connection for messages; a thread at a time may use it.

    Parameters
    ----------
    channel : SocketChannel
        Owned from now on.
    """

    def __init__(self, channel: SocketChannel[Any]) -> None:
        self._channel = channel
        self.peer = channel.peer
        self.host = channel.host
        """This end's address."""

    def send(self, message: Message, parts: Sequence[bytes | memoryview] = ()) -> None:
        """Send a message.

        Parameters
        ----------
        message : mapping
            What JSON can hold.
        parts : sequence of bytes
            The payload, one after the other.

        Raises
        ------
        DataError
            The payload is larger than `MOST_PAYLOAD`.
        """
        text = json.dumps(message, separators=(",", ":")).encode()
        size = sum(map(len, parts))
        if size > MOST_PAYLOAD:
            raise DataError(
                f"Expected rows of at most {MOST_PAYLOAD} bytes in a block, got {size}. Make rows "
                "smaller, such as by names of files instead of what is in them."
            )
        payload = b"".join(parts) if len(parts) != 1 else parts[0]
        head = _HEAD.pack(len(text), len(payload)) + text
        self._channel.send(head, memoryview(payload) if len(payload) else None)

    def receive(self, most: int = MOST_PAYLOAD) -> tuple[dict[str, Any], memoryview]:
        """Wait for a message and its payload.

        Parameters
        ----------
        most : int
            Bytes of the payload that are taken.

        Raises
        ------
        RemoteProtocolError
            Something else came.
        TransportError
            The connection has ended.
        """
        head = bytearray(_HEAD.size)
        self._channel.receive(memoryview(head))
        length, size = _HEAD.unpack(head)
        if length > MOST_TEXT or size > most:
            raise RemoteProtocolError(
                f"Expected a message of at most {MOST_TEXT} bytes with at most {most} "
                f"bytes after it, but {self.peer} announces {length} and {size}."
            )
        text, payload = bytearray(length), memoryview(bytearray(size))
        self._channel.receive(memoryview(text))
        if size:
            self._channel.receive(payload)
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RemoteProtocolError(f"Expected JSON from {self.peer}: {error}.") from error
        if type(message) is not dict:
            raise RemoteProtocolError(f"Expected an object of JSON from {self.peer}.")
        return message, payload

    def ask(
        self, message: Message, parts: Sequence[bytes | memoryview] = ()
    ) -> tuple[dict[str, Any], memoryview]:
        """Send a message, and wait for its answer."""
        self.send(message, parts)
        return self.receive()

    def shutdown(self) -> None:
        """End the connection, from any thread."""
        self._channel.shutdown()

    def close(self) -> None:
        """Close the socket, once no thread uses it."""
        self._channel.close()


class TalkServer:
    """Serves connections for messages, a thread for each. It listens at once.

    Parameters
    ----------
    secret : bytes
        A client has to prove it.
    serve : callable
        Takes the `Talk` of each connection, in a thread of its own, until the peer leaves. Its
        TosErrors end that connection only.
    endpoint : Endpoint
        Where to listen.

    Attributes
    ----------
    address : Address
    fingerprint : bytes or None
        Of its certificate; None where it does not speak TLS.

    Raises
    ------
    TransportError
        See `Acceptor`.
    """

    def __init__(
        self, secret: bytes, serve: Callable[[Talk], object], endpoint: Endpoint = LOOPBACK
    ) -> None:
        self._serve = serve
        self._lock = threading.Lock()
        self._talks: dict[Talk, threading.Thread] = {}
        self._closed = False
        self._acceptor = Acceptor(secret, self._admit, endpoint)
        self.address: Address = self._acceptor.address
        self.fingerprint = self._acceptor.fingerprint
        self._acceptor.start()

    def _admit(self, channel: SocketChannel[Any], hello: bytes) -> None:
        talk = Talk(channel)
        thread = threading.Thread(
            target=self._run, args=(talk,), name=f"tos-node-{talk.peer}", daemon=True
        )
        with self._lock:
            if self._closed:
                channel.close()
                return
            self._talks[talk] = thread
        thread.start()

    def _run(self, talk: Talk) -> None:
        try:
            self._serve(talk)
        except TosError as error:
            logger.debug("%s: %s", talk.peer, error)
        except Exception:
            logger.exception("Serving %s failed", talk.peer)
        finally:
            with self._lock:
                self._talks.pop(talk, None)
            talk.close()

    def close(self, timeout: float = 5.0, linger: float = 0.0) -> None:
        """End listening and all connections; may be repeated.

        Parameters
        ----------
        timeout : float
            Seconds for threads to end.
        linger : float
            Seconds before that, in which peers may leave by themselves.

        Raises
        ------
        WaitTimeout
            A thread did not end in time.
        """
        with self._lock:
            self._closed = True
        self._acceptor.close(timeout)
        with self._lock:
            left = dict(self._talks)
        with suppress(WaitTimeout):
            join_all(left.values(), linger)
        for talk in left:
            with suppress(OSError):
                talk.shutdown()
        join_all(left.values(), timeout)


def open_talk(
    address: Sequence[Any], secret: bytes, fingerprint: bytes | None, timeouts: Timeouts
) -> Talk:
    """Connect to a server of messages; raises what `open_channel` does.

    Parameters
    ----------
    address : (str, int)
    secret : bytes
    fingerprint : bytes or None
        Of the server's certificate; None on the loopback interface.
    timeouts : Timeouts
    """
    host, port = address
    return Talk(open_channel(str(host), int(port), secret, fingerprint, timeouts))
