"""Who may join a mesh, who comes too late, and that nothing of it is left open."""

from __future__ import annotations

import socket
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.threads import LIMIT, Aside
from tests.unit.reduction.conftest import SECRET, listeners, meshes, together
from tests.unit.transport.peers import read_all
from tos_notebook.errors import AuthenticationError, ConnectionClosed, LocalProtocolError, PeerLost
from tos_notebook.reduction.mesh import MOST_RANKS, Mesh, Peer, PeerListener
from tos_notebook.reduction.reducer import Reducer
from tos_notebook.reduction.schedules import ring
from tos_notebook.reduction.sharing import NO_OFFER, OFFER
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.base import Address, Endpoint
from tos_notebook.transport.dial import open_channel
from tos_notebook.transport.sockets import SocketChannel, Timeouts


def open_sockets() -> set[str]:
    """Return the sockets that this process holds."""
    held = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            held.add(str(descriptor.readlink()))
        except FileNotFoundError:
            continue
    return {name for name in held if name.startswith("socket:")}


def formed(generation: int, listening: list[PeerListener]) -> list[Mesh]:
    peers = [listener.here for listener in listening]
    made = [Mesh(each, rank, peers, generation) for rank, each in enumerate(listening)]
    calls = [lambda mesh=mesh: mesh.form(LIMIT) for mesh in made]  # type: ignore[misc]
    assert together(calls) == [None] * len(made)
    return made


def works(mesh: list[Mesh]) -> None:
    vectors = [np.full(10, float(rank)) for rank in range(len(mesh))]
    calls = [
        lambda one=one, vector=vector: Reducer(one, ring(len(mesh))).reduce(vector, 1.0)  # type: ignore[misc]
        for one, vector in zip(mesh, vectors, strict=True)
    ]
    together(calls)
    mean = sum(range(len(mesh))) / len(mesh)
    assert [vector.tolist() for vector in vectors] == [[mean] * 10] * len(mesh)


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_each_rank_has_a_link_to_each_other_one_and_all_are_closed(tls: bool) -> None:
    before = open_sockets()
    with meshes(4, tls) as made:
        for rank, mesh in enumerate(made):
            assert {*mesh.links} == {0, 1, 2, 3} - {rank}
            assert all(link.rank == peer for peer, link in mesh.links.items())
        works(made)
    assert open_sockets() == before


def test_a_mesh_of_one_needs_no_peer() -> None:
    with meshes(1) as (mesh,):
        assert mesh.links == {}


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_a_peer_without_the_secret_costs_one_closed_connection(tls: bool) -> None:
    with listeners(2, tls) as listening, closing(PeerListener(new_secret())) as strange:
        peers = [listening[0].here, strange.here]
        stranger = Mesh(strange, 1, peers)
        with pytest.raises(PeerLost, match=r"rank 0 .* cannot be reached") as caught:
            stranger.form(LIMIT)
        assert isinstance(caught.value.__cause__, AuthenticationError)
        with closing(socket.create_connection(listening[0].here.address, LIMIT)) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 9)
            read_all(sock)
        made = formed(0, listening)
        works(made)
        for mesh in made:
            mesh.close()


def test_a_peer_of_an_older_generation_is_refused() -> None:
    with listeners(2) as listening:
        peers = [listener.here for listener in listening]
        made = formed(7, listening)
        with closing(PeerListener(SECRET)) as listener:
            with pytest.raises(PeerLost, match="rank 0") as caught:
                Mesh(listener, 1, peers, 6).form(LIMIT)
            assert caught.value.rank == 0
        works(made)
        for mesh in made:
            mesh.close()


def test_a_peer_that_knows_a_later_generation_waits_for_the_others() -> None:
    """The driver tells one worker after the other."""
    with listeners(2) as listening:
        peers = [listener.here for listener in listening]
        before = formed(0, listening)
        early = Mesh(listening[1], 1, peers, 1)
        forming = Aside(lambda: early.form(LIMIT))
        before[0].close()
        behind = Mesh(listening[0], 0, peers, 1)
        behind.form(LIMIT)
        forming.result()
        works([behind, early])
        for mesh in (*before, behind, early):
            mesh.close()


def test_what_an_older_generation_has_left_is_closed() -> None:
    with listeners(2) as listening:
        peers = [listener.here for listener in listening]
        early = Aside(lambda: Mesh(listening[1], 1, peers, 1).form(LIMIT))
        # Rank 0 never forms the first generation, and its peer's connection does not stay.
        listening[0].begin(2)
        with pytest.raises(PeerLost):
            early.result()


def test_a_peer_that_does_not_connect_is_named() -> None:
    with listeners(3) as listening:
        peers = [listener.here for listener in listening]
        there = [Mesh(listening[rank], rank, peers) for rank in (0, 1)]
        ended = together([lambda mesh=mesh: mesh.form(0.2) for mesh in there])  # type: ignore[misc]
        assert [type(error) for error in ended] == [PeerLost, PeerLost]
        assert ended[0].rank == 2
        assert "rank 2 to take part, but it has not connected in time" in str(ended[0])
        assert all(mesh.closed for mesh in there)


def test_a_peer_that_does_not_listen_is_named() -> None:
    with listeners(2) as listening:
        peers = [listener.here for listener in listening]
        listening[0].close()
        with pytest.raises(PeerLost, match=r"rank 0 .* cannot be reached") as caught:
            Mesh(listening[1], 1, peers).form(LIMIT)
        assert caught.value.rank == 0
        assert str(caught.value).endswith("Connection refused.")
        # It is for the driver's address.
        assert "server_host" not in str(caught.value)


def test_a_peer_with_another_certificate_is_refused() -> None:
    with listeners(2, tls=True) as listening:
        (address, _), second = (listener.here for listener in listening)
        with pytest.raises(PeerLost, match="certificate"):
            Mesh(listening[1], 1, [Peer(address, bytes(32)), second]).form(LIMIT)


def test_a_listener_that_is_closed_wakes_who_waits_for_its_peers() -> None:
    listener = PeerListener(SECRET, Endpoint())
    nowhere = Peer(Address("127.0.0.1", 1))
    forming = Aside(lambda: Mesh(listener, 0, [listener.here, nowhere]).form(LIMIT))
    listener.close()
    with pytest.raises(ConnectionClosed, match="on this side"):
        forming.result()


def test_one_thread_at_a_time_uses_the_links() -> None:
    with meshes(2) as made:
        with pytest.raises(LocalProtocolError, match="one thread"):
            made[0].run(lambda: made[0].run(print))
        assert made[0].closed
        with pytest.raises(ConnectionClosed, match="on this side"):
            made[0].run(print)


def test_a_peer_that_does_not_say_that_it_is_ready_is_lost() -> None:
    with listeners(2) as listening:
        peers = [listener.here for listener in listening]
        forming = Aside(lambda: Mesh(listening[1], 1, peers).form(LIMIT))
        arrived = listening[0].take(0, 1, LIMIT)
        assert arrived is not None
        arrived.channel.send(bytes(1 + OFFER), None)
        with pytest.raises(PeerLost, match=r"rank 0 .* says b'.* to say that it is ready"):
            forming.result()
        arrived.channel.close()


def connects(listener: PeerListener, generation: int, rank: int) -> SocketChannel[Any]:
    """Connect as a rank says that it does."""
    hello = struct.pack(">QI", generation, rank)
    return open_channel(*listener.here.address, SECRET, None, Timeouts(), hello + NO_OFFER)


def test_a_listener_keeps_two_channels_of_each_rank_however_many_come() -> None:
    before = open_sockets()
    with listeners(1) as (listener,):
        came = [connects(listener, generation, 1) for generation in range(20)]
        arrived = [listener.take(generation, 1, LIMIT) for generation in (19, 18)]
        assert [listener.take(generation, 1, 0.0) for generation in range(18)] == [None] * 18
        for early in came[:18]:
            with pytest.raises(ConnectionClosed):
                early.receive(memoryview(bytearray(1)))
        assert arrived[0] is not None
        assert arrived[1] is not None
        for each in (arrived[0].channel, arrived[1].channel, *came):
            each.close()
    assert open_sockets() == before


def test_a_generation_that_never_comes_keeps_no_rank_out() -> None:
    with listeners(2) as listening:
        for generation in (2**64 - 1, 2**63):
            channel = connects(listening[0], generation, 1)
            for mesh in formed(3, listening):
                mesh.close()
            channel.close()


def test_a_rank_beyond_all_that_there_can_be_is_refused() -> None:
    with listeners(1) as (listener,):
        channel = connects(listener, 0, MOST_RANKS)
        with pytest.raises(ConnectionClosed):
            channel.receive(memoryview(bytearray(1)))
        channel.close()


class Unneeded(Exception):
    """What the test answers a rank that asks."""


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_waits_to_connect_asks_whether_it_still_needs_its_peer(rank: int) -> None:
    asked: list[int] = []

    def ask(peer: int) -> None:
        asked.append(peer)
        if len(asked) == 3:
            raise Unneeded

    with listeners(2) as listening:
        peers = [listener.here for listener in listening]
        # The other rank listens, and does not take part.
        mesh = Mesh(listening[rank], rank, peers, ask=ask)
        with pytest.raises(Unneeded):
            mesh.form(LIMIT)
        assert asked == [1 - rank] * 3
        assert mesh.closed


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_who_waits_in_a_reduction_asks_and_others_learn_that_it_has_left(
    monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    asked: list[int] = []

    def ask(peer: int) -> None:
        asked.append(peer)
        if len(asked) == 3:
            raise Unneeded

    monkeypatch.setattr("tos_notebook.reduction.mesh.REDUCING", 0.01)
    with listeners(2, tls) as listening:
        peers = [listener.here for listener in listening]
        made = [Mesh(each, rank, peers, 0, ask) for rank, each in enumerate(listening)]
        together([lambda mesh=mesh: mesh.form(LIMIT) for mesh in made])  # type: ignore[misc]
        asked.clear()
        with pytest.raises(Unneeded):
            Reducer(made[0], ring(2)).reduce(np.zeros(9), 1.0)
        assert asked == [1] * 3
        with pytest.raises(PeerLost, match="rank 0"):
            Reducer(made[1], ring(2)).reduce(np.zeros(9), 1.0)
