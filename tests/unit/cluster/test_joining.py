"""A task that is a second client of a Spark Connect session, and what it is given."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests.support.mail import Views
from tests.unit.cluster.test_remote import Session
from tos_notebook.cluster.remote.context import RemoteContext
from tos_notebook.cluster.remote.joining import (
    Way,
    is_repeated,
    join,
    packed,
    run_apart,
    unpacked,
    way_to,
)
from tos_notebook.errors import ClusterUnreachable, ConnectError

WAY = Way(("127.0.0.1:1",), {"token": "secret-token"}, "tos_1", b"nonce")


def test_one_task_drives_and_its_values_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    place = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 1)
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: place)

    def drive(way: Way, sent: Any) -> Iterator[bytes]:
        yield way.greeting
        yield sent.value

    monkeypatch.setitem(sys.modules, "driven", SimpleNamespace(drive=drive))
    context = RemoteContext(Session())
    assert run_apart(context, "driven", WAY, context.broadcast(b"content")) == [
        b"nonce",
        b"content",
    ]
    assert is_repeated()


def test_values_come_back_with_functions_of_a_cell() -> None:
    value = unpacked(packed({"rate": lambda step: step / 2, "rows": (1, None)}), None)
    assert (value["rate"](3), value["rows"]) == (1.5, (1, None))


def test_a_way_does_not_show_its_token() -> None:
    assert "secret-token" not in repr(WAY)


def test_a_server_that_the_task_does_not_reach_is_named_with_what_helps() -> None:
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1 .*spark\.tos\.server\.host"):
        join(WAY)


@pytest.fixture
def listening() -> Iterator[str]:
    """Yield the address of a port that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_port_that_does_not_speak_the_protocol_is_given_up_soon(
    monkeypatch: pytest.MonkeyPatch, listening: str
) -> None:
    monkeypatch.setattr("tos_notebook.cluster.remote.opening.ANSWER", 0.2)
    with pytest.raises(ClusterUnreachable, match="No Spark Connect server answers at"):
        join(replace(WAY, addresses=(listening,), parameters={}))


@pytest.mark.parametrize("fails", [None, RuntimeError("UNAVAILABLE")])
def test_a_session_in_which_the_greeting_is_not_found_is_closed(
    monkeypatch: pytest.MonkeyPatch, listening: str, fails: Exception | None
) -> None:
    session: Any = Views()
    session.fails = fails
    session.stop = Mock()
    made = Mock()
    made.channelBuilder.return_value.create.return_value = session
    monkeypatch.setattr("pyspark.sql.connect.session.SparkSession.builder", made)
    monkeypatch.setattr("tos_notebook.cluster.remote.joining.check_protocol", Mock())
    with pytest.raises(ClusterUnreachable, match="UNAVAILABLE" if fails else "another Spark"):
        join(replace(WAY, addresses=(listening,), parameters={}))
    session.stop.assert_called_once_with()
    assert not session.release_session_on_close
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


class Channel:
    """How a client reaches its server."""

    endpoint, secure, token = "h:15002", False, "t"
    _params = {"token": "t"}  # noqa: RUF012


DefaultChannelBuilder = type("DefaultChannelBuilder", (Channel,), {})


class Context(RemoteContext):
    """Of a server behind address translation."""

    def setting(self, key: str, default: str) -> str:
        return {"spark.driver.host": "10.0.0.1"}.get(key, default)


def context_with(builder: object) -> Context:
    """Return the context of a client with a channel."""
    session: Any = Views()
    session.session_id = "s"
    session.client = SimpleNamespace(_builder=builder, _user_id="u")
    return Context(session)


def test_a_way_has_both_addresses_and_the_session() -> None:
    context = context_with(DefaultChannelBuilder())
    way = way_to(context, "tos_1", b"nonce")
    assert way.addresses == ("h:15002", "10.0.0.1:15002")
    assert way.parameters == {"token": "t", "session_id": "s", "user_id": "u"}
    assert way.mail(context.session).get("greeting") == b"nonce"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_task_tries_the_servers_own_address_before_this_machines_end_of_a_tunnel(
    host: str,
) -> None:
    """On the task's machine a loopback address is another one."""
    builder: Any = DefaultChannelBuilder()
    builder.endpoint = f"{host}:15002"
    way = way_to(context_with(builder), "tos_1", b"nonce")
    assert way.addresses == ("10.0.0.1:15002", f"{host}:15002")


def test_a_token_of_the_environment_is_the_tasks_too() -> None:
    builder: Any = DefaultChannelBuilder()
    builder._params, builder.token = {}, "from the environment"
    way = way_to(context_with(builder), "tos_1", b"nonce")
    assert way.parameters["token"] == "from the environment"


def test_a_channel_of_the_users_own_is_refused() -> None:
    with pytest.raises(ConnectError, match=r"got one by Channel.*spark\.tos\.server\.port"):
        way_to(context_with(Channel()), "tos_1", b"nonce")
