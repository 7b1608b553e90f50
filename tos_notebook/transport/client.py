"""The worker's end of a connection, over any channel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from ..common.arrays import aligned_empty
from ..errors import ConnectionClosed, LocalProtocolError, RemoteProtocolError, TransportError
from ..wire.bodies import decode_body
from ..wire.frames import Header, encode_head
from ..wire.messages import Answer, Goodbye, Message, Push, Refused, Request
from ..wire.refusals import error_of
from .base import BytesLike, Channel, ReplyChannel, byte_view

MAX_PAYLOAD = 1 << 32
"""Bytes. What an answer may make a worker allocate, unless told otherwise."""


class ChannelConnection:
    """Requests and answers over a channel.

    Parameters
    ----------
    channel : Channel
        The open channel, which the connection owns from now on.
    max_payload : int
        Bytes that an answer may bring when no buffer is given for it.
    """

    def __init__(self, channel: Channel, max_payload: int = MAX_PAYLOAD) -> None:
        self._channel = channel
        self._replies = channel if isinstance(channel, ReplyChannel) else None
        self._max_payload = max_payload
        self._sequence = 0
        self._closed = False
        self._busy = Lock()

    @property
    def host(self) -> str:
        """This side's address."""
        return self._channel.host

    def request(
        self,
        message: Request,
        payload: BytesLike | None = None,
        into: BytesLike | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> tuple[Answer, memoryview | None]:
        """Send a request and wait for its answer; see `base.Connection.request`."""
        outgoing, target = byte_view(payload), byte_view(into, writable=True)
        self._begin()
        try:
            answer, received = self._exchange(message, outgoing, target, meanwhile)
        finally:
            self._end()
        if isinstance(answer, Refused):
            raise error_of(answer)
        return answer, received

    def close(self) -> None:
        """Say goodbye and close; may be repeated."""
        if not self._closed and self._busy.acquire(blocking=False):
            # A peer that is gone already does not hear it.
            with suppress(TransportError):
                self._channel.send(encode_head(Goodbye(), 0, 0), None)
            self._busy.release()
        self.abort()

    def abort(self) -> None:
        """Close at once, from any thread: a waiting request raises `ConnectionClosed`."""
        self._closed = True
        self._channel.shutdown()
        # A request under way still uses the channel: its own thread closes it, in `_end`.
        if self._busy.acquire(blocking=False):
            self._end()

    def _begin(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise LocalProtocolError(
                "Expected one request at a time, but another thread is waiting for its answer."
            )
        if self._closed:
            self._busy.release()
            raise ConnectionClosed(
                f"The connection to {self._channel.peer} was closed on this side. Open a new one."
            )

    def _end(self) -> None:
        self._busy.release()
        if self._closed:
            self._channel.close()

    def _exchange(
        self,
        message: Request,
        payload: memoryview | None,
        target: memoryview | None,
        meanwhile: Callable[[], object] | None,
    ) -> tuple[Answer | Refused, memoryview | None]:
        sequence = self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        head = encode_head(message, sequence, payload.nbytes if payload is not None else 0)
        try:
            self._channel.send(head, payload)
            if meanwhile is not None:
                meanwhile()
            if self._replies is not None and isinstance(message, Push):
                reply = self._replies.receive_reply(sequence, target)
                if reply is not None:
                    return reply, target
            header, body = self._channel.receive_head()
            answer = self._check(header, decode_body(header.kind, body), sequence)
            return answer, self._receive(header.payload, target)
        except BaseException:
            # What is left of the answer would be taken for the next one.
            self._closed = True
            self._channel.shutdown()
            raise

    def _check(self, header: Header, answer: Message, sequence: int) -> Answer | Refused:
        # A refusal of something unreadable cannot know its number.
        if isinstance(answer, Refused):
            return answer
        if header.sequence != sequence:
            raise RemoteProtocolError(
                f"Expected the answer to request {sequence} from {self._channel.peer}, "
                f"got one to request {header.sequence}."
            )
        if not isinstance(answer, Answer):
            raise RemoteProtocolError(
                f"Expected an answer from {self._channel.peer}, got {type(answer).__name__}."
            )
        return answer

    def _receive(self, nbytes: int, target: memoryview | None) -> memoryview | None:
        if not nbytes:
            return None
        if target is None:
            target = self._allocate(nbytes)
        elif nbytes != target.nbytes:
            raise RemoteProtocolError(
                f"Expected {target.nbytes} bytes from {self._channel.peer}, got {nbytes}. "
                "Check that worker and server hold the same program."
            )
        self._channel.receive_payload(target)
        return target

    def _allocate(self, nbytes: int) -> memoryview:
        if nbytes > self._max_payload:
            raise RemoteProtocolError(
                f"Expected at most {self._max_payload} bytes from {self._channel.peer}, "
                f"got {nbytes}."
            )
        return aligned_empty(nbytes).data
