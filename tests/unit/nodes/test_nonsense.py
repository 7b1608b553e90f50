"""A client with the secret that speaks nonsense breaks its own connection, and no node's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.nodes.test_roster import meta
from tos_notebook.errors import TransportError
from tos_notebook.nodes import talk as talks
from tos_notebook.nodes.roster import LONGEST_LINE, Roster
from tos_notebook.nodes.server import NodeServer
from tos_notebook.nodes.talk import Talk, open_talk
from tos_notebook.transport.sockets import Timeouts


@pytest.fixture
def server() -> Iterator[NodeServer]:
    server = NodeServer(Roster(2))
    yield server
    server.close()


@pytest.fixture
def talk(server: NodeServer) -> Iterator[Talk]:
    talk = open_talk(server.address, server.address.secret, None, Timeouts())
    yield talk
    talk.close()


@pytest.mark.parametrize(
    "wrong", [{"job_name": None}, {"port": "1"}, {"inbox": 5}, {"executor_id": 0.5}]
)
def test_a_node_that_does_not_say_what_others_rely_on_is_refused(
    server: NodeServer, talk: Talk, wrong: dict[str, Any]
) -> None:
    (name,) = wrong
    answer, _ = talk.ask({"register": {**meta(0), **wrong}})
    assert f"Expected a node that says its {name}" in answer["refused"]
    assert talk.ask({"register": meta(0)})[0] == {"registered": "OK"}
    assert server.roster.assign("h/0", "h") is server.roster.nodes[0]


def test_no_memory_is_taken_for_bytes_that_nobody_expects(server: NodeServer, talk: Talk) -> None:
    talk._channel.send(talks._HEAD.pack(2, talks.MOST_PAYLOAD) + b"{}", None)
    with pytest.raises(TransportError):
        talk.receive()


def test_lines_without_an_end_are_cut(server: NodeServer, talk: Talk) -> None:
    talk.ask({"register": meta(0)})
    talk.ask({"beat": 0, "lines": ["x" * 10 * LONGEST_LINE]})
    assert list(server.roster.nodes[0].lines) == ["x" * LONGEST_LINE]
