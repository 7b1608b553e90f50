"""Workers in threads, with real sockets between them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import pytest

from tests.support.threads import LIMIT, Aside
from tos_notebook.reduction.mesh import Mesh, PeerListener
from tos_notebook.reduction.sharing import Memory
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.base import Endpoint

SECRET = new_secret()


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make calls at the same time; return their results, or their errors."""
    threads = [Aside(call) for call in calls]
    ended = []
    for thread in threads:
        try:
            ended.append(thread.result())
        except Exception as error:
            ended.append(error)
    return ended


@contextmanager
def listeners(n: int, tls: bool = False, patience: float = LIMIT) -> Iterator[list[PeerListener]]:
    made: list[PeerListener] = []
    try:
        made += [PeerListener(SECRET, Endpoint(tls=tls), patience) for _ in range(n)]
        yield made
    finally:
        for listener in made:
            listener.close(LIMIT)


@contextmanager
def meshes(
    n: int, tls: bool = False, patience: float = LIMIT, memories: Sequence[Memory] = ()
) -> Iterator[list[Mesh]]:
    """Form a mesh of n ranks, and close all of it; they share memory if it is given."""
    with listeners(n, tls, patience) as listening:
        peers = [listener.here for listener in listening]
        near = range(len(memories))
        made = [
            Mesh(each, rank, peers, memory=memory, near=near)
            for rank, (each, memory) in enumerate(zip_longest(listening, memories))
        ]
        assert together([lambda mesh=mesh: mesh.form(LIMIT) for mesh in made]) == [None] * n  # type: ignore[misc]
        try:
            yield made
        finally:
            for mesh in made:
                mesh.close()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Hold every test to ending the threads it started."""
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before
