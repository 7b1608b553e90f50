"""What every transport does alike."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tos_notebook.common.arrays import ALIGNMENT
from tos_notebook.errors import (
    ConnectionClosed,
    ConnectTimeout,
    LocalProtocolError,
    RemoteProtocolError,
    ShapeMismatch,
    TransportError,
    WaitTimeout,
)
from tos_notebook.transport.reactor import THREAD_NAME
from tos_notebook.wire.messages import Failed, Fetch, Finish, Poll, Proceed, Push, Reply, Rows

LIMIT = 10.0
Aside = Callable[[Callable[[], Any]], Callable[[], Any]]
SIZES = [1, 100, 65_000, 65_536, 70_000, 3_000_001]


def _push(samples: int, epoch: int = 0) -> Push:
    return Push(epoch, 0, 1, samples, 0, 0, True, 0.5, 0.0, 0.0, 0.0, 0.0, 0, ())


def _random(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)


def test_requests_are_answered_in_turn(transport: Any) -> None:
    connection = transport.connect()
    for epoch in range(20):
        answer, payload = connection.request(_push(0, epoch))
        assert isinstance(answer, Reply)
        assert (answer.version, payload) == (epoch, None)


@pytest.mark.parametrize("nbytes", SIZES)
def test_payloads_go_there_and_back_unchanged(transport: Any, nbytes: int) -> None:
    update, parameters = _random(nbytes), np.zeros(nbytes, np.uint8)
    _, payload = transport.connect().request(_push(nbytes), update, into=parameters)
    np.testing.assert_array_equal(parameters, update[::-1])
    assert np.shares_memory(np.frombuffer(payload, np.uint8), parameters)


def test_one_buffer_may_hold_the_update_and_then_the_reply(transport: Any) -> None:
    update = _random(200_000)
    buffer = update.copy()
    transport.connect().request(_push(buffer.nbytes), buffer, into=buffer)
    np.testing.assert_array_equal(buffer, update[::-1])


def test_a_payload_without_a_place_gets_an_aligned_one(transport: Any) -> None:
    answer, payload = transport.connect().request(Fetch(5000))
    assert isinstance(answer, Rows)
    array = np.frombuffer(payload, np.uint8)
    assert len(array) == 5000
    assert array.ctypes.data % ALIGNMENT == 0


def test_arrays_of_any_dtype_and_shape_are_bytes(transport: Any) -> None:
    update = np.arange(12, dtype=np.float32).reshape(3, 4)
    _, payload = transport.connect().request(_push(48), update)
    assert bytes(payload) == update.tobytes()[::-1]


def test_an_empty_payload_is_none(transport: Any) -> None:
    connection = transport.connect()
    assert connection.request(_push(0), b"")[1] is None
    assert connection.request(Fetch(0))[1] is None


def test_an_answer_without_payload_leaves_the_place_alone(transport: Any) -> None:
    parameters = np.full(10, 7, np.uint8)
    _, payload = transport.connect().request(_push(0), into=parameters)
    assert payload is None
    assert (parameters == 7).all()


def test_an_answer_of_another_length_closes_the_connection(transport: Any) -> None:
    connection = transport.connect()
    with pytest.raises(RemoteProtocolError, match=r"Expected 9 bytes .* got 10"):
        connection.request(_push(10), bytes(10), into=bytearray(9))
    with pytest.raises(ConnectionClosed):
        connection.request(Fetch(1))


def test_an_answer_beyond_the_limit_is_not_received(transport: Any) -> None:
    connection = transport.connect(max_payload=100)
    assert len(connection.request(Fetch(100))[1]) == 100
    with pytest.raises(RemoteProtocolError, match=r"at most 100 bytes .* got 101"):
        connection.request(Fetch(101))


@pytest.mark.parametrize("nbytes", [9, 11, 5_000_000])
def test_a_payload_that_the_handler_does_not_expect_ends_the_connection(
    transport: Any, nbytes: int
) -> None:
    """The worker gets the reason even if it was still sending when the server had enough."""
    connection = transport.connect()
    handler = transport.handler(connection)
    with pytest.raises(RemoteProtocolError, match=f"expected 10 bytes, got {nbytes}"):
        connection.request(_push(10), bytes(nbytes))
    assert handler.ended.wait(LIMIT)
    assert isinstance(handler.ends[0], RemoteProtocolError)
    with pytest.raises(ConnectionClosed):
        connection.request(Fetch(1))


def test_a_payload_where_none_belongs_ends_the_connection(transport: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="Fetch: expected 0 bytes of payload, got 3"):
        transport.connect().request(Fetch(1), b"abc")


def test_an_error_of_ours_keeps_class_and_text_and_the_connection_goes_on(transport: Any) -> None:
    connection = transport.connect()
    with pytest.raises(ShapeMismatch, match=r"^no such shape$"):
        connection.request(Finish(1, 0, 0))
    assert len(connection.request(Fetch(3))[1]) == 3


def test_any_other_error_is_logged_and_kept_from_the_worker(
    transport: Any, caplog: pytest.LogCaptureFixture
) -> None:
    connection = transport.connect()
    with pytest.raises(RemoteProtocolError, match="server error: ValueError") as caught:
        connection.request(Finish(0, 0, 0))
    assert "private" not in str(caught.value)
    (logged,) = (record.exc_info for record in caplog.records if record.levelname == "ERROR")
    assert logged
    assert repr(logged[1]) == "ValueError('private')"
    assert len(connection.request(Fetch(3))[1]) == 3


def test_an_answer_that_cannot_be_sent_is_a_server_error(
    transport: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = transport.connect()
    handler = transport.handler(connection)
    monkeypatch.setattr(handler, "handle", lambda *_: (object(), None))
    with pytest.raises(LocalProtocolError, match="got object"):
        connection.request(Fetch(1))


def test_a_buffer_that_cannot_be_sent_costs_nothing(transport: Any) -> None:
    connection = transport.connect()
    with pytest.raises(LocalProtocolError, match="contiguous"):
        connection.request(_push(5), np.zeros(10, np.uint8)[::2])
    with pytest.raises(LocalProtocolError, match="read-only"):
        connection.request(_push(5), bytes(5), into=bytes(5))
    assert len(connection.request(Fetch(3))[1]) == 3


def test_a_message_that_cannot_be_sent_costs_nothing(transport: Any) -> None:
    connection = transport.connect()
    with pytest.raises(LocalProtocolError):
        connection.request(Fetch(np.int64(3)))
    assert len(connection.request(Fetch(3))[1]) == 3


def test_an_answer_is_no_request(transport: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="Expected a request, got Rows"):
        transport.connect().request(Rows("uint8", []))


def test_close_is_a_goodbye_and_may_be_repeated(transport: Any) -> None:
    connection = transport.connect()
    handler = transport.handler(connection)
    connection.close()
    connection.close()
    assert handler.ended.wait(LIMIT)
    transport.listener.close(LIMIT)
    assert handler.ends == [None]
    with pytest.raises(ConnectionClosed):
        connection.request(Fetch(1))


def test_abort_is_a_lost_worker(transport: Any) -> None:
    connection = transport.connect()
    handler = transport.handler(connection)
    connection.abort()
    assert handler.ended.wait(LIMIT)
    transport.listener.close(LIMIT)
    (error,) = handler.ends
    assert isinstance(error, ConnectionClosed)


def test_abort_wakes_a_request_that_waits(transport: Any, aside: Aside) -> None:
    connection = transport.connect()
    handler = transport.handler(connection)
    result = aside(lambda: connection.request(Poll(0)))
    assert handler.asked.wait(LIMIT)
    connection.abort()
    with pytest.raises(ConnectionClosed):
        result()


def test_a_second_request_at_the_same_time_is_refused(transport: Any, aside: Aside) -> None:
    connection = transport.connect()
    handler = transport.handler(connection)
    result = aside(lambda: connection.request(Poll(0)))
    assert handler.asked.wait(LIMIT)
    with pytest.raises(LocalProtocolError, match="one request at a time"):
        connection.request(Fetch(1))
    handler.released.set()
    result()


def test_work_is_done_while_the_server_does_its_own(transport: Any) -> None:
    connection = transport.connect()
    handler = transport.handler(connection)

    def meanwhile() -> None:
        assert handler.asked.wait(LIMIT)
        handler.released.set()

    answer, _ = connection.request(Poll(0), meanwhile=meanwhile)
    assert isinstance(answer, Proceed)


def test_an_error_in_that_work_ends_the_connection(transport: Any) -> None:
    connection = transport.connect()
    with pytest.raises(ZeroDivisionError):
        connection.request(Fetch(0), meanwhile=lambda: 1 / 0)
    with pytest.raises(ConnectionClosed):
        connection.request(Fetch(0))


def test_an_answer_that_does_not_come_is_a_timeout(transport: Any) -> None:
    connection = transport.connect(request_timeout=0.05)
    with pytest.raises(ConnectTimeout, match=r"within 0\.05 s"):
        connection.request(Poll(0))
    with pytest.raises(ConnectionClosed):
        connection.request(Fetch(1))


def test_closing_the_listener_wakes_requests_and_ends_every_thread(
    transport: Any, aside: Aside
) -> None:
    before = set(threading.enumerate())
    connection = transport.connect()
    handler = transport.handler(connection)
    result = aside(lambda: connection.request(Poll(0)))
    assert handler.asked.wait(LIMIT)
    with pytest.raises(WaitTimeout, match="tos-server-"):
        transport.listener.close(0.01)
    with pytest.raises(ConnectionClosed):
        result()
    handler.released.set()
    transport.listener.close(LIMIT)
    assert len(handler.ends) == 1
    assert not set(threading.enumerate()) - before


def test_a_closed_listener_takes_nobody(transport: Any) -> None:
    transport.listener.close(LIMIT)
    transport.listener.close(LIMIT)
    with pytest.raises(TransportError):
        transport.connect(**({"timeout": 1.0} if transport.kind != "inproc" else {}))


def test_each_connection_has_a_handler_and_a_thread_beside_the_reactor(
    transport: Any, aside: Aside
) -> None:
    def work(number: int) -> list[bytes]:
        connection = transport.connect()
        update = bytes([number]) * 1000
        answers = [connection.request(_push(1000), update)[1] for _ in range(20)]
        connection.close()
        return [bytes(answer) for answer in answers]

    results = [aside(lambda n=number: work(n)) for number in range(16)]
    for number, result in enumerate(results):
        assert result() == [bytes([number]) * 1000] * 20
    transport.listener.close(LIMIT)
    assert [handler.ends for handler in transport.handlers] == [[None]] * 16
    own = [handler.threads - {THREAD_NAME} for handler in transport.handlers]
    assert all(len(threads) == 1 for threads in own)
    assert len(set.union(*own)) == 16


def test_a_handler_that_fails_to_close_harms_nobody_else(
    transport: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(error: Exception | None) -> None:
        raise ValueError("in closed")

    connection = transport.connect()
    monkeypatch.setattr(transport.handler(connection), "closed", fail)
    other = transport.connect()
    connection.close()
    assert len(other.request(Fetch(2))[1]) == 2
    transport.listener.close(LIMIT)
    assert "in closed" in caplog.text


def test_a_large_request_reaches_the_handler_whole(transport: Any) -> None:
    connection = transport.connect()
    handler = transport.handler(connection)
    message = Failed("x" * 32_768, ["y" * 600] * 64, False, 0, [])
    connection.request(message)
    assert handler.requests[-1] == message
