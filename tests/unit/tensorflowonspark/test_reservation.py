"""Nodes tell each other their addresses through a server that knows who may."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tos_notebook.errors import ConfigError, TransportError, WaitTimeout
from tos_notebook.nodes.plan import ServerAddress
from tos_notebook.tensorflowonspark.reservation import Client, Reservations, Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("TFOS_SERVER_HOST", "127.0.0.1")
    made = Server(4)
    yield made
    made.stop()


def test_reservations_count_down_to_a_whole_cluster() -> None:
    reservations = Reservations(2)
    reservations.add({"node": "a"})
    assert (reservations.done(), reservations.remaining()) == (False, 1)
    reservations.add({"node": "b"})
    assert reservations.done()
    assert reservations.get() == [{"node": "a"}, {"node": "b"}]


def test_nodes_that_come_at_once_learn_of_all_others(server: Server) -> None:
    address = server.start()

    def reserve(number: int) -> list[int]:
        client = Client(address)
        try:
            assert client.register({"node": number}) == "OK"
            return sorted(each["node"] for each in client.await_reservations())
        finally:
            client.close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(reserve, range(4))) == [[0, 1, 2, 3]] * 4
    assert len(server.await_reservations(None)) == 4


def test_the_end_that_a_node_asks_for_is_seen_by_the_server(server: Server) -> None:
    client = Client(server.start())
    assert not server.done
    assert client.request_stop() == "OK"
    client.close()
    assert server.done


def test_a_wait_for_nodes_that_do_not_come_ends_with_how_many_are_missing(server: Server) -> None:
    with pytest.raises(WaitTimeout, match="4 are missing"):
        server.await_reservations(None, timeout=0)
    with pytest.raises(WaitTimeout, match="no GPU"):
        server.await_reservations(None, {"error": "no GPU"})


def test_who_does_not_know_the_secret_is_not_served(server: Server) -> None:
    host, port = address = server.start()
    with pytest.raises(ConfigError, match="carries the cluster's secret"):
        Client((host, port))  # type: ignore[arg-type]
    guessed = ServerAddress.of(host, port, type(address.secret)(bytes(32)), address.fingerprint)
    with pytest.raises(TransportError):
        Client(guessed)
    assert address.secret.hex() not in f"{address!r} {address}"


def test_its_port_is_one_that_the_environment_allows(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("TFOS_SERVER_PORT", str(port))
        assert server.get_server_ports() == [port]
        with pytest.raises(TransportError, match=str(port)):
            server.start_listening_socket()
    monkeypatch.setenv("TFOS_SERVER_PORT", "9997-9999")
    assert server.get_server_ports() == [9997, 9998, 9999]
    monkeypatch.setenv("TFOS_SERVER_PORT", "any")
    with pytest.raises(ConfigError, match="'any'"):
        server.get_server_ports()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_port_that_was_refused_is_free_once_nobody_holds_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("", 0)) as taken:
        monkeypatch.setenv("TFOS_SERVER_PORT", str(taken.getsockname()[1]))

    def hold() -> socket.socket:
        held = server.start_listening_socket()
        with suppress(TransportError):
            server.start_listening_socket()
        return held

    hold()
    server.start_listening_socket().close()
