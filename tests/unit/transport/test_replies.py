"""What a worker makes of the answer to a push, however it comes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic
from typing import Any

import numpy as np
import pytest

from tests.unit.worker.support import push
from tos_notebook.common import native
from tos_notebook.errors import (
    ConnectionClosed,
    ConnectTimeout,
    LocalProtocolError,
    RemoteProtocolError,
    TosError,
)
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.tcp import TcpChannel
from tos_notebook.wire.frames import HEADER_SIZE, decode_header, encode_head
from tos_notebook.wire.messages import Directive, Proceed, Push, Refused, Reply
from tos_notebook.wire.settings import WorkerSettings

NBYTES = 4000
PARAMETERS = bytes(range(250)) * 16
PLAIN = Reply(7, 3, "committed", Directive.GO, None)
TOLD = PLAIN._replace(settings=WorkerSettings(5, None, {"pushes": "delta", "codec": "none"}))
FIRST = 1
"""The number of a connection's first request."""


@pytest.fixture(autouse=True, params=["compiled", "python"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with what is compiled for small pushes, and without."""
    if request.param == "python":
        monkeypatch.setattr(native, "extension", None)
    elif native.extension is None:
        pytest.skip("needs a C compiler when this package is installed")


@dataclass
class Ends:
    """A worker's connection, and the socket at its other end."""

    worker: ChannelConnection
    server: socket.socket

    def ask(self, into: Any = None, message: Any = None) -> Any:
        return self.worker.request(message or push(), None, into)

    def take_push(self) -> Push:
        got = self.server.recv(1 << 16)
        assert decode_header(got).body == len(got) - HEADER_SIZE
        return push()


@pytest.fixture
def ends() -> Iterator[Ends]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    channel = TcpChannel(near, "the server", 0.2, 0.4)
    channel.configure()
    with closing(ChannelConnection(channel)) as worker, far:
        yield Ends(worker, far)


@pytest.fixture
def answer(ends: Ends) -> Iterator[Callable[..., None]]:
    """Return a function that answers the next request by some bytes, one call for each."""
    threads: list[threading.Thread] = []

    def answer_with(*parts: bytes) -> None:
        def serve() -> None:
            ends.take_push()
            ends.server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in parts:
                ends.server.sendall(part)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()

    yield answer_with
    for thread in threads:
        thread.join()


def frame(message: Any = PLAIN, payload: bytes = b"", number: int = FIRST) -> bytes:
    return encode_head(message, number, len(payload)) + payload


def room() -> Any:
    return np.zeros(NBYTES, np.uint8)


def test_a_plain_reply_comes_with_its_parameters(ends: Ends, answer: Callable[..., None]) -> None:
    into = room()
    answer(frame(payload=PARAMETERS))
    reply, received = ends.ask(into)
    assert (reply, bytes(received), into.tobytes()) == (PLAIN, PARAMETERS, PARAMETERS)


def test_a_plain_reply_comes_without_parameters(ends: Ends, answer: Callable[..., None]) -> None:
    answer(frame())
    assert ends.ask() == (PLAIN, None)


@pytest.mark.parametrize("cuts", [[1], [HEADER_SIZE], [45], [46], [47], [46, 100, 4000], [8, 30]])
def test_it_may_come_in_pieces(ends: Ends, answer: Callable[..., None], cuts: list[int]) -> None:
    whole, into = frame(payload=PARAMETERS), room()
    bounds = [0, *cuts, len(whole)]
    answer(*(whole[i:j] for i, j in pairwise(bounds)))
    assert ends.ask(into)[0] == PLAIN
    assert into.tobytes() == PARAMETERS


@pytest.mark.parametrize("payload", [b"", PARAMETERS], ids=["without", "with"])
def test_settings_may_come_with_it(ends: Ends, answer: Callable[..., None], payload: bytes) -> None:
    into = room() if payload else None
    answer(frame(TOLD, payload))
    assert ends.ask(into)[0] == TOLD
    assert into is None or into.tobytes() == payload


def test_one_request_follows_the_other(ends: Ends, answer: Callable[..., None]) -> None:
    for number, message in enumerate((PLAIN, TOLD, PLAIN), FIRST):
        into = room()
        answer(frame(message, PARAMETERS, number))
        assert ends.ask(into)[0] == message
        assert into.tobytes() == PARAMETERS


def test_a_refusal_is_raised(ends: Ends, answer: Callable[..., None]) -> None:
    answer(frame(Refused("CombinerError", "no")))
    with pytest.raises(TosError, match="no"):
        ends.ask(room())


@pytest.mark.parametrize(
    ("sent", "match"),
    [
        (frame(payload=PARAMETERS, number=9), "answer to request 1"),
        (frame(payload=PARAMETERS[:-1]), "Expected 4000 bytes"),
        (frame(payload=PARAMETERS + b"x"), "Expected 4000 bytes"),
        (frame(PLAIN._replace(version=2**60), PARAMETERS), "version"),
        (frame(payload=PARAMETERS)[:40] + b"\xff" + frame(payload=PARAMETERS)[41:], "status"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(40), "magic|starts with"),
        (frame(push(), PARAMETERS), "got Push"),
    ],
    ids=["number", "short", "long", "version", "status", "stranger", "push"],
)
def test_what_is_no_answer_ends_the_connection(
    ends: Ends, answer: Callable[..., None], sent: bytes, match: str
) -> None:
    answer(sent)
    with pytest.raises(RemoteProtocolError, match=match):
        ends.ask(room())
    with pytest.raises((ConnectionClosed, LocalProtocolError)):
        ends.ask(room())


def test_bytes_beyond_the_frame_are_refused(ends: Ends, answer: Callable[..., None]) -> None:
    answer(frame(payload=PARAMETERS) + b"more")
    with pytest.raises(RemoteProtocolError, match="beyond the frame"):
        ends.ask(room())


def test_another_answer_than_a_reply_is_the_callers_to_judge(
    ends: Ends, answer: Callable[..., None]
) -> None:
    answer(frame(Proceed(Directive.GO, 0, None)))
    assert ends.ask()[0] == Proceed(Directive.GO, 0, None)


def test_a_server_that_is_silent_is_waited_for_as_long_as_agreed(ends: Ends) -> None:
    began = monotonic()
    with pytest.raises(ConnectTimeout):
        ends.ask(room())
    assert 0.35 < monotonic() - began < 5


@pytest.mark.parametrize("part", [b"", frame()[:30], frame(payload=PARAMETERS)[:2000]])
def test_a_server_that_leaves_is_named(
    ends: Ends, answer: Callable[..., None], part: bytes
) -> None:
    ends.server.sendall(part)
    ends.server.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionClosed, match="the server"):
        ends.ask(room())
