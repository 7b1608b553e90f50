"""Channels that keep what passes through them, or say what they were given; and what frames are."""

from __future__ import annotations

import struct
from typing import Any

from tos_notebook.transport.sockets import SocketChannel
from tos_notebook.wire.bodies import decode_body
from tos_notebook.wire.frames import HEADER, HEADER_SIZE, Header, decode_header
from tos_notebook.wire.messages import KINDS, Push


class Forgery(AssertionError):
    """What must not be accepted was."""


class Tap:
    """A channel that keeps what passes through it."""

    def __init__(self, channel: Any, sent: list[bytes], received: list[bytes]) -> None:
        self._channel = channel
        self._sent = sent
        self._received = received
        self.peer = channel.peer
        self.shutdown, self.close = channel.shutdown, channel.close

    def send(self, head: bytes, payload: memoryview | None) -> None:
        self._sent.append(head + bytes(payload or b""))
        self._channel.send(head, payload)

    def receive_head(self) -> tuple[Header, bytes]:
        header, body = self._channel.receive_head()
        fields = header.kind, 0, header.sequence, header.body, header.payload
        self._received.append(HEADER.pack(b"TOSN", 1, *fields) + body)
        return header, body

    def receive_payload(self, target: memoryview) -> None:
        self._channel.receive_payload(target)
        self._received[-1] += bytes(target)

    def discard(self, nbytes: int) -> None:
        self._channel.discard(nbytes)


class Memo(SocketChannel):
    """A channel whose peer has said all that it ever will; what it is told is kept."""

    # Nothing watches what has no file descriptor.
    look = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(None, "peer", 1.0, patience=0.0)  # type: ignore[arg-type]
        self.begin()

    def begin(self, *bursts: bytes) -> None:
        """Let the peer say something else, each part of it when the one before was answered."""
        self._bursts = [memoryview(burst) for burst in reversed(bursts) if burst]
        self._rest = self._chunk[:0]
        self.heads: list[bytes] = []

    def _limit_waits(self, sock: object) -> None:
        pass

    def send(self, head: bytes, payload: memoryview | None) -> None:
        self.heads.append(head)

    def _never(self, *arguments: object) -> Any:
        raise AssertionError

    _send = _send_now = _send_rest = _take_now = _never

    def _take(self, target: memoryview, whole: bool) -> int:
        if not self._bursts:
            return 0
        burst = self._bursts.pop()
        part = burst[: len(target)]
        target[: len(part)] = part
        if len(part) < len(burst):
            self._bursts.append(burst[len(part) :])
        return len(part)

    def shutdown(self) -> None:
        pass

    close = shutdown


def message_of(head: bytes) -> Any:
    """Return the message in a frame."""
    header = decode_header(head)
    return decode_body(header.kind, head[HEADER_SIZE : HEADER_SIZE + header.body])


PUSH_KIND = next(kind for kind, cls in KINDS.items() if cls is Push)


def whole_pushes(data: bytes) -> int:
    """Count the whole frames of pushes that data begins with, by a reader of its own."""
    found, at = 0, 0
    while data[at : at + 5] == b"TOSN\x01" and len(data) >= at + 24:
        kind = data[at + 5]
        body, payload = struct.unpack_from(">IQ", data, at + 12)
        at += 24 + body + payload
        if at > len(data):
            break
        found += kind == PUSH_KIND
    return found


def payload_at(data: bytes) -> int:
    """Return where the payload of the first push begins."""
    at = 0
    while data[at + 5] != PUSH_KIND:
        body, payload = struct.unpack_from(">IQ", data, at + 12)
        at += 24 + body + payload
    return at + 24 + int.from_bytes(data[at + 12 : at + 16], "big")
