"""A node's port is for this host alone if all nodes are on it, with any server on the port."""

from __future__ import annotations

import socket

import pytest

from tos_notebook.errors import ConfigError
from tos_notebook.nodes.ports import FIXED, hold_port, shield


def test_a_server_on_all_interfaces_is_reached_from_this_host_only() -> None:
    with hold_port() as held, socket.socket() as server:
        port = held.getsockname()[1]
        shields = shield(port)
        # As TensorFlow's server does.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("", port))
        server.listen()
        server.settimeout(0.2)
        with socket.create_connection(("127.0.0.1", port), 5):
            server.accept()[0].close()
        for each in shields:
            with socket.socket(each.family) as client:
                client.settimeout(5)
                client.connect(each.getsockname())
                with pytest.raises(TimeoutError):
                    server.accept()
            each.close()


def test_a_port_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FIXED, "9997-9999")
    with pytest.raises(ConfigError, match="TENSORFLOW_PORT: expected a port, got '9997-9999'"):
        hold_port()
