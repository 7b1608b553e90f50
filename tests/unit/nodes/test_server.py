"""What the driver answers its nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.nodes.test_roster import meta
from tos_notebook.nodes.roster import Roster
from tos_notebook.nodes.server import NodeServer
from tos_notebook.nodes.talk import Talk, open_talk
from tos_notebook.transport.sockets import Timeouts


@pytest.fixture
def server() -> Iterator[NodeServer]:
    made = NodeServer(Roster(1))
    yield made
    made.close()


@pytest.fixture
def talk(server: NodeServer) -> Iterator[Talk]:
    address = server.address
    made = open_talk(address, address.secret, address.fingerprint, Timeouts())
    yield made
    made.close()


def test_a_node_of_an_earlier_start_is_told_to_stop_and_the_next_one_begins(
    server: NodeServer, talk: Talk
) -> None:
    assert talk.ask({"register": meta(0, start=0)})[0] == {"registered": "OK"}
    server.roster.begin_again()
    assert talk.ask({"beat": 30, "running": True})[0]["stop"]
    answer, _ = talk.ask({"register": meta(0, start=0)})
    assert "has begun again" in answer["refused"]
    talk.ask({"register": meta(0, start=1)})
    answer, _ = talk.ask({"beat": 0, "running": False})
    assert (answer["stop"], [node["executor_id"] for node in answer["cluster"]]) == (False, [0])


def test_a_tensorboard_that_does_not_run_is_noted_and_has_no_address(
    server: NodeServer, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    talk.ask({"register": meta(0, tb_port=6006)})
    talk.ask({"beat": 0, "running": True, "board": "has ended with exit code 1: no"})
    assert list(server.roster.notes) == ["TensorBoard has ended with exit code 1: no"]
    assert caplog.messages == list(server.roster.notes)
    assert server.roster.cluster[0]["tb_port"] == 0
    assert server.roster.failure is None


def test_a_second_attempt_of_a_node_waits_for_the_end_of_the_first(
    server: NodeServer, talk: Talk
) -> None:
    talk.ask({"register": meta(0, spark_task=[3, 7])})
    address = server.address
    other = open_talk(address, address.secret, address.fingerprint, Timeouts())
    assert other.ask({"register": meta(0, spark_task=[3, 8])})[0] == {"there": True}
    assert "number 0 already" in other.ask({"register": meta(0, spark_task=[4, 9])})[0]["refused"]
    other.send({"await_end": 0})
    talk.ask({"left": "done"})
    assert other.receive()[0] == {"ended": True}
    other.close()


def test_nodes_end_with_spark_though_its_jvm_may_stay() -> None:
    stopped: list[bool] = []
    server = NodeServer(Roster(1), over=lambda: bool(stopped))
    address = server.address
    talk = open_talk(address, address.secret, address.fingerprint, Timeouts())
    try:
        talk.ask({"register": meta(0)})
        assert not talk.ask({"beat": 0, "running": True})[0]["stop"]
        stopped.append(True)
        assert talk.ask({"beat": 30, "running": True})[0]["stop"]
    finally:
        talk.close()
        server.close()
