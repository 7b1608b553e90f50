"""Between-graph replication, without Spark and TensorFlow: what is refused, and when copies are."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from tos_notebook.codecs.pair import PLAIN
from tos_notebook.errors import ConfigError, RemoteProtocolError
from tos_notebook.steering.machine import Command
from tos_notebook.steering.sync import as_sync
from tos_notebook.strategies import TensorFlowCluster, as_strategy
from tos_notebook.strategies.tensorflow.exchange import addresses
from tos_notebook.strategies.tensorflow.pace import Pace
from tos_notebook.strategies.tensorflow.peer import SessionPeer
from tos_notebook.wire.messages import Directive, Reply


def test_a_name_may_say_that_all_make_each_step_together() -> None:
    assert as_strategy("tensorflow") == TensorFlowCluster()
    assert as_strategy("tensorflow:sync") == TensorFlowCluster(sync=True)
    with pytest.raises(ConfigError, match="expected 'tensorflow' or 'tensorflow:sync'"):
        as_strategy("tensorflow:bsp")


@pytest.mark.parametrize(
    ("given", "name"),
    [({"ps": 0}, "ps"), ({"sync": "yes"}, "sync"), ({"insecure_network": 1}, "ins")],
)
def test_parameters_are_checked_where_they_are_given(given: Any, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*: expected"):
        TensorFlowCluster(**given)


@pytest.mark.parametrize(
    ("synchronous", "sync", "interval", "message"),
    [
        (False, "bsp", 10, "sync: expected 'asp'"),
        (False, "ssp:2", 10, "sync: expected 'asp'"),
        (True, "asp", 1, "sync: expected 'bsp'"),
        (True, "bsp", 2, "sync_interval: expected 1"),
    ],
)
def test_settings_that_do_not_apply_are_refused(
    synchronous: bool, sync: str, interval: int, message: str
) -> None:
    settings = TensorFlowCluster(sync=synchronous).settings(None, PLAIN)
    with pytest.raises(ConfigError, match=message):
        settings.check(as_sync(sync), interval)


def test_neither_combiners_nor_strategies_are_swapped() -> None:
    commands = TensorFlowCluster.commands
    assert not {Command.SWAP_COMBINER, Command.SWAP_STRATEGY} & commands
    assert {Command.PAUSE, Command.RESUME, Command.STOP, Command.SET} <= commands


def test_settings_come_back_from_plain_values() -> None:
    for strategy in (TensorFlowCluster(), TensorFlowCluster(sync=True)):
        settings = strategy.exact_settings()
        assert strategy.settings_from_json(strategy.settings_to_json(settings)) == settings


@pytest.mark.parametrize(
    "received", [b"", b"{}", b"[]", b"[1]", b'["host"]', b'["a b:1"]', b'["host:port"]', b"\xff"]
)
def test_what_is_no_address_is_refused(received: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="Expected the addresses"):
        addresses(received)
    assert addresses(b'["127.0.0.1:80", "[::1]:81"]') == ["127.0.0.1:80", "[::1]:81"]


def test_a_copy_waits_for_milestones_and_keeps_others_from_beginning() -> None:
    pace, begun = Pace(), threading.Event()
    pace.begin("one")
    threading.Timer(0, pace.end, ["one"]).start()

    def begin() -> None:
        pace.begin("two")
        begun.set()

    with pace.held():
        other = threading.Thread(target=begin)
        other.start()
        assert not begun.is_set()
    other.join(10)
    assert begun.is_set()


def test_a_milestone_is_under_way_until_it_is_counted() -> None:
    pace, order = Pace(), []

    def copy() -> None:
        with pace.held():
            order.append("copied")

    copier = threading.Thread(target=copy)

    class Counter:
        def push(self, member: Any, message: Any) -> Reply:
            copier.start()
            copier.join(0.2)
            order.append("counted")
            return reply

    reply = Reply(1, 0, "committed", Directive.WAIT, None)
    peer = SessionPeer(cast(Any, None), cast(Any, Counter()), pace)
    pace.begin(peer)
    assert peer.push(cast(Any, None), cast(Any, None)) == (reply, None)
    copier.join(10)
    assert order == ["counted", "copied"]
