"""Which thread of a shard answers a worker: one for all, as long as no worker has to wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from tos_notebook.combiners import Downpour
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.shards.center import ShardCenter
from tos_notebook.strategies.ps.shards.peer import ShardHandler
from tos_notebook.strategies.ps.shards.staging import Staging
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.base import Endpoint
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.transport.listener import TcpListener
from tos_notebook.transport.reactor import THREAD_NAME
from tos_notebook.wire.messages import Attach, Collect, Directive, Encoding, Proceed, Push

LAYOUT = Layout([ParameterSpec("total", (4,), "float64")])
ENOUGH = 10
"""Updates after which a connection is known to ask for what is small."""


class Watched(ShardHandler):
    """Notes the thread that answers."""

    threads: list[str]

    def handle(self, message: Any, payload: memoryview | None) -> Any:
        self.threads.append(threading.current_thread().name)
        return super().handle(message, payload)


class Shard:
    """A shard with one worker's connection."""

    def __init__(self) -> None:
        self.staging = Staging(ShardCenter(LAYOUT, LAYOUT.allocate(), Downpour()))
        self.threads: list[str] = []
        secret = new_secret()
        self.listener = TcpListener(self._handler, secret, Endpoint("127.0.0.1"))
        self.listener.start()
        self.connection: ChannelConnection = connect_tcp(
            "127.0.0.1", self.listener.address.port, secret, self.listener.fingerprint
        )
        self.connection.request(Attach("run", 0, 1, 0, 0, 1))
        self.connection.request(Encoding("delta", "fp32", by_row=False))
        self.pushes = 0

    def _handler(self, peer: str) -> Watched:
        handler = Watched("run", self.staging)
        handler.threads = self.threads
        return handler

    def exchange(self, version: int = 0) -> tuple[set[str], Any]:
        """Push ones, and collect; return who answered, and what."""
        self.threads.clear()
        at = self.pushes
        push = Push(0, at, 1, 1, at, 0, True, 0.0, 0.0, 0.0, 0.0, 0.0, 0, ())
        self.connection.request(push, np.ones(4).view(np.uint8))
        answer, _ = self.connection.request(Collect(0, at, True, True, version, 1))
        self.pushes += 1
        return set(self.threads), answer


@pytest.fixture
def shard() -> Iterator[Shard]:
    made = Shard()
    with closing(made.listener), closing(made.connection):
        yield made


def test_one_thread_answers_all_workers_that_do_not_wait(shard: Shard) -> None:
    """Threads of their own would wait for each other, and some of the workers get no turn."""
    for _ in range(ENOUGH):
        shard.exchange()
    assert shard.exchange()[0] == {THREAD_NAME}
    total = LAYOUT.tensors(shard.staging.center.read()[0])["total"]
    assert total.tolist() == [float(shard.pushes)] * 4


def test_the_thread_of_all_does_not_wait_for_a_version_that_others_have_to_make(
    shard: Shard,
) -> None:
    for _ in range(ENOUGH):
        shard.exchange()
    later = shard.pushes + 5
    threads, answer = shard.exchange(version=later)
    assert threads == {THREAD_NAME}
    assert isinstance(answer, Proceed)
    assert answer.directive is Directive.WAIT
    # From now on this worker may have to wait: in a thread of its own.
    assert THREAD_NAME not in shard.exchange()[0]
