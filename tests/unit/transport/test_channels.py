"""What a peer or a kernel does too rarely to wait for it: played by fakes."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest

from tos_notebook.errors import ConnectionClosed, ConnectTimeout, RemoteProtocolError
from tos_notebook.strategies.ps import center
from tos_notebook.transport import dial, sockets
from tos_notebook.transport.auth import client_handshake
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.inproc import InprocChannel
from tos_notebook.transport.tcp import TcpChannel
from tos_notebook.wire.frames import HEADER_SIZE, Header, decode_header, encode_head
from tos_notebook.wire.messages import Fetch, Proceed, Rows

HEAD, PAYLOAD = b"head", b"and the payload"


class ShortSender:
    """A socket that takes `first` bytes of its first frame, and all of what comes then."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.taken = b""

    def sendmsg(self, parts: Any) -> int:
        self.taken += b"".join(parts)[: self._first]
        return self._first

    def sendall(self, data: bytes) -> None:
        self.taken += bytes(data)


@pytest.mark.parametrize("first", range(len(HEAD) + len(PAYLOAD) + 1))
def test_what_the_kernel_did_not_take_is_sent_after(first: int) -> None:
    sock: Any = ShortSender(first)
    TcpChannel(sock, "peer", 1.0, patience=0.0).send(HEAD, memoryview(PAYLOAD))
    assert sock.taken == HEAD + PAYLOAD


class Dripping:
    """A peer that sends a byte a second, for ever, by a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def sendall(self, data: bytes) -> None:
        pass

    def recv(self, nbytes: int) -> bytes:
        self.now += 1.0
        assert self.now < 100, "the handshake has no end"
        return b"x"


def test_a_handshake_has_one_deadline_however_its_bytes_drip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer: Any = Dripping()
    monkeypatch.setattr(sockets, "monotonic", peer.monotonic)
    channel = TcpChannel(peer, "peer", 1.0, patience=0.0)
    with pytest.raises(ConnectTimeout, match="in time"):
        channel.shake_hands(client_handshake(b"0123456789abcdef"), 5.0)
    assert peer.now == 5.0


class Answering:
    """A channel whose peer answers every request with one frame."""

    peer = "peer"

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self.closed = False

    def send(self, head: bytes, payload: memoryview | None) -> None:
        pass

    def receive_head(self) -> tuple[Header, bytes]:
        return decode_header(self._frame), self._frame[HEADER_SIZE:]

    def receive_payload(self, target: memoryview) -> None:
        pass

    def discard(self, nbytes: int) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (encode_head(Proceed("go", 0, None), 2, 0), "answer to request 1 .* request 2"),  # type: ignore[arg-type]
        (encode_head(Fetch(1), 1, 0), "Expected an answer .* got Fetch"),
        (encode_head(Rows("uint8", []), 1, 2**40), "at most"),
    ],
)
def test_an_answer_that_does_not_fit_its_request_closes_the_connection(
    frame: bytes, text: str
) -> None:
    channel = Answering(frame)
    connection = ChannelConnection(channel)
    with pytest.raises(RemoteProtocolError, match=text):
        connection.request(Fetch(0))
    assert channel.closed
    with pytest.raises(ConnectionClosed):
        connection.request(Fetch(0))


def test_a_payload_whose_sender_gave_up_meanwhile_is_not_taken_for_whole() -> None:
    up: SimpleQueue[Any] = SimpleQueue()
    down: SimpleQueue[Any] = SimpleQueue()
    ended = Event()
    worker = InprocChannel("server", down, up, ended, None)
    server = InprocChannel("worker", up, down, ended, None)
    worker.send(encode_head(Fetch(1), 1, 3), memoryview(b"abc"))
    server.receive_head()
    worker.shutdown()
    with pytest.raises(ConnectionClosed):
        server.receive_payload(memoryview(bytearray(3)))


class Silent(TcpChannel):
    """A channel from which nothing comes."""

    def __init__(self, patience: float) -> None:
        super().__init__(Dripping(), "peer", 60.0, patience)  # type: ignore[arg-type]
        self.waits = 0

    def _take(self, target: memoryview, whole: bool) -> int:
        self.waits += 1
        raise BlockingIOError


@pytest.mark.parametrize(("patience", "waits"), [(0.0, 1), (60.0, 1), (600.0, 10)])
def test_an_answer_is_waited_for_so_long(patience: float, waits: int) -> None:
    channel = Silent(patience)
    with pytest.raises(ConnectTimeout):
        channel.receive_head()
    assert channel.waits == waits


def test_a_worker_waits_for_longer_than_its_push_waits_for_its_turn() -> None:
    """Else slow pushes in a row made all workers leave, and come again with the next."""
    assert dial.ANSWER > center.MERGE_TIMEOUT
