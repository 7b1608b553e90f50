"""Memory that ranks of one host share: the same bits, an end to each wait, and nothing left."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.threads import LIMIT, Aside
from tests.unit.reduction.conftest import SECRET, listeners, meshes, together
from tests.unit.reduction.dying import MAKE
from tests.unit.reduction.test_reducer import made, reduced
from tests.unit.reduction.test_schedules import ALL
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import Median
from tos_notebook.common.arrays import Array
from tos_notebook.errors import PeerLost
from tos_notebook.reduction.coded import CodedReducer
from tos_notebook.reduction.flow import Flow
from tos_notebook.reduction.gathered import GatheringReducer
from tos_notebook.reduction.links import Patience, TcpLink
from tos_notebook.reduction.mesh import Mesh
from tos_notebook.reduction.reducer import Reducer
from tos_notebook.reduction.schedules import at_once, direct, ring
from tos_notebook.reduction.sharing import NO_OFFER, Memory, SharedLink, Within, accept
from tos_notebook.transport import shared

ROOT = Path(__file__).parents[3]
SIZES = [0, 1, 5, 1000, 16_384, 300_001, 800_000]
"""Elements: fewer than ranks, those that are copied, those that are read in place."""
NBYTES = 1 << 23
SIGNAL = struct.Struct("<IIQQQ")
HEAD = struct.Struct("<QQdd")


@contextmanager
def memories(n: int) -> Iterator[list[Memory]]:
    made = [Memory(NBYTES) for _ in range(n)]
    try:
        yield made
    finally:
        for memory in made:
            memory.close()


def placed(memory: Memory, vector: Array) -> Array:
    """Return a vector in a rank's memory."""
    there = memory.vectors[: vector.nbytes].view(vector.dtype)
    there[:] = vector
    return there


@contextmanager
def pair(seconds: float = LIMIT) -> Iterator[tuple[list[SharedLink], list[Memory], list[Any]]]:
    """Link two ranks of this process."""
    sockets, patience = socket.socketpair(), Patience(seconds)
    with memories(2) as held:
        offers = [memory.begin() for memory in held]
        links = []
        for rank, sock in enumerate(sockets):
            other = accept(offers[1 - rank])[1]
            assert other is not None
            signals = TcpLink(sock, 1 - rank, patience)
            links.append(
                SharedLink(signals, rank, held[rank].whole, other, range(2), offers[1 - rank])
            )
        try:
            yield links, held, list(sockets)
        finally:
            for link in links:
                link.close()


@pytest.mark.parametrize("make", [*ALL, at_once])
@pytest.mark.parametrize(("n", "tls"), [(2, False), (3, True), (4, False), (7, False)])
def test_the_mean_has_the_same_bits_as_over_sockets(make: Any, n: int, tls: bool) -> None:
    with memories(n) as held, meshes(n, tls, memories=held) as near, meshes(n) as far:
        assert {mesh.within for mesh in near} == {Within.SHARED}
        sharing = [Reducer(mesh, make(n)) for mesh in near]
        sending = [Reducer(mesh, make(n)) for mesh in far]
        for size in SIZES:
            vectors, weights = made(n, size), [float(rank) for rank in range(n)]
            inside = [placed(*each) for each in zip(held, vectors, strict=True)]
            outside = [vector.copy() for vector in vectors]
            reduced(sending, vectors, weights)
            for others in (inside, outside):
                reduced(sharing, others, weights)
                assert {each.tobytes() for each in others} == {vectors[0].tobytes()}


def test_what_is_sent_at_once_does_not_change_while_a_peer_reads_it() -> None:
    """A rank adds to its vector what comes, and the peer may read the vector only then."""
    own, other = made(2, 300_000)
    with memories(2) as held, meshes(2, memories=held) as formed:
        one, link, flow = Reducer(formed[0], at_once(2)), formed[1].links[0], Flow(Patience(LIMIT))
        ended = Aside(lambda: one.reduce(placed(held[0], own), 1.0))
        lent = placed(held[1], other).view(np.uint8)
        flow.send(link, HEAD.pack(1, lent.size, 1.0, 1.0), lent.data)
        # Rank 0 has read all of it.
        flow.finish()
        came = bytearray(HEAD.size + lent.size)
        flow.fill(link, memoryview(came))
        ended.result()
        assert came[HEAD.size :] == own.tobytes()


def test_the_connection_carries_signals_alone() -> None:
    with memories(2) as held, meshes(2, tls=True, memories=held) as near:
        vectors = [placed(*each) for each in zip(held, made(2, 1_000_000), strict=True)]
        for traffic in reduced([Reducer(mesh, ring(2)) for mesh in near], vectors, [1.0, 1.0]):
            assert 0 < sum(traffic.sent.values()) < 1000
            assert 0 < sum(traffic.received.values()) < 1000


@pytest.mark.parametrize("seed", range(5))
def test_messages_of_any_sizes_arrive_in_their_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = [int(size) for size in 2 ** random.uniform(0, 22, 60)]

    def exchange(link: SharedLink, memory: Memory, rank: int) -> None:
        flow = Flow(Patience(LIMIT))
        for number, size in enumerate(sizes):
            own = memory.vectors[:size] if number % 2 else np.empty(size, np.uint8)
            own[:] = number + 100 * rank
            came = np.empty(size, np.uint8)
            flow.send(link, bytes([number]), own.data)
            head = bytearray(1)
            flow.fill(link, memoryview(head))
            flow.fill(link, came.data)
            flow.finish()
            assert head[0] == number
            assert (came == number + 100 * (1 - rank)).all()

    with pair() as (links, held, _):
        calls = [
            lambda rank=rank: exchange(links[rank], held[rank], rank)  # type: ignore[misc]
            for rank in range(2)
        ]
        assert together(calls) == [None, None]


def test_what_a_peer_shares_cannot_be_written_and_is_for_no_one_without_its_name() -> None:
    with closing(Memory(100)) as memory:
        offer = memory.begin()
        within, theirs = accept(offer)
        assert within is Within.SHARED
        assert theirs is not None
        assert not theirs.flags.writeable
        wrong = offer.replace(memory.whole[:16].tobytes(), bytes(16))
        assert accept(wrong) == (Within.APART, None)
        longer = offer[:-8] + (memory.whole.size + 1).to_bytes(8, "little")
        assert accept(longer) == (Within.APART, None)
        assert accept(NO_OFFER) == (Within.NO_MEMORY, None)
    assert accept(offer) == (Within.APART, None)


def works_over_sockets(held: list[Memory], reason: Within) -> None:
    with meshes(2, memories=held) as formed:
        assert {mesh.within for mesh in formed} == {reason}
        vectors = made(2, 300_000)
        expected = (vectors[0] + vectors[1]) / np.float32(2)
        inside = [placed(*each) for each in zip(held, vectors, strict=True)]
        reduced([Reducer(mesh, direct(2)) for mesh in formed], inside, [1.0, 1.0])
        assert inside[0].tobytes() == inside[1].tobytes() == expected.tobytes()


def test_a_system_without_memory_to_share_leaves_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with memories(1) as (one,):
        monkeypatch.setattr(os, "posix_fallocate", full)
        with memories(1) as (other,):
            works_over_sockets([one, other], Within.NO_MEMORY)


def test_ranks_that_do_not_see_each_other_s_processes_use_sockets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shared, "PROCESSES", str(tmp_path))
    with memories(2) as held:
        works_over_sockets(held, Within.APART)


@pytest.mark.parametrize(
    "signal_",
    [
        (2**32 - 1, 0, 0, 0, 0),
        (0, 1, 0, 0, 0),
        (0, 0, 2**63, 2**63, 0),
        (0, 0, 1 << 24, 1, 0),
        (0, 0, 0, 0, 1),
    ],
    ids=["written", "read", "far", "behind", "returned"],
)
def test_a_signal_of_memory_that_is_not_there_loses_the_peer(signal_: tuple[int, ...]) -> None:
    with pair() as (links, _, sockets):
        sockets[1].sendall(SIGNAL.pack(*signal_))
        with pytest.raises(PeerLost, match=r"rank 1 .* memory that is not there"):
            links[0].receive(memoryview(bytearray(1)))


def test_a_peer_cannot_lend_the_same_memory_again_and_again() -> None:
    with pair() as (links, held, sockets):
        signals = SIGNAL.pack(0, 0, 0, held[1].whole.size // 2, 0)
        sockets[1].sendall(3 * signals)
        links[0].receive(memoryview(bytearray(1)))
        data = np.ones(1 << 20, np.uint8)
        Flow(Patience(LIMIT)).send(links[0], b"", held[0].vectors[: data.size].data)
        with pytest.raises(PeerLost, match=r"rank 1 .* memory that is not there"):
            links[0].send_some(b"", data.data)


def test_what_a_peer_writes_for_its_next_mesh_is_not_taken_for_this_one() -> None:
    with pair() as (links, held, _):
        links[1].send_some(b"ab", memoryview(b""))
        target = memoryview(bytearray(1))
        held[1].end(NO_OFFER)
        links[0].receive(target)
        assert target.tobytes() == b"a"
        held[1].begin()
        with pytest.raises(PeerLost, match="has left"):
            links[0].receive(target)


def test_a_peer_that_never_reads_what_it_is_lent_is_lost() -> None:
    with memories(2) as held, meshes(2, patience=0.2, memories=held) as formed:
        one = Reducer(formed[0], ring(2))
        with pytest.raises(PeerLost, match=r"rank 1 .* silent for 0\.2 s"):
            one.reduce(placed(held[0], made(1, 1_000_000)[0]), 1.0)
        # The other one may still read then, and must not take what comes next for it.
        other = Reducer(formed[1], ring(2))
        with pytest.raises(PeerLost, match=r"rank 0 .* has left"):
            other.reduce(placed(held[1], made(1, 1_000_000)[0]), 1.0)


def test_the_same_memory_serves_the_next_mesh_after_a_peer_was_lost() -> None:
    with memories(3) as held, listeners(3) as listening:
        for generation, ranks in enumerate([[0, 1, 2], [0, 2], [1, 0]]):
            peers = [listening[rank].here for rank in ranks]
            formed = [
                Mesh(
                    *(listening[each], rank, peers, generation),
                    memory=held[each],
                    near=range(len(ranks)),
                )
                for rank, each in enumerate(ranks)
            ]
            calls = [lambda mesh=mesh: mesh.form(LIMIT) for mesh in formed]  # type: ignore[misc]
            assert together(calls) == [None] * len(ranks)
            vectors = made(len(ranks), 100_000)
            inside = [placed(held[each], v) for each, v in zip(ranks, vectors, strict=True)]
            reducers = [Reducer(mesh, direct(len(ranks))) for mesh in formed]
            reduced(reducers, inside, [1.0] * len(ranks))
            expected = sum(vectors) / np.float32(len(ranks))
            assert {each.tobytes() for each in inside} == {expected.tobytes()}
            formed[0].close()
            for reducer, vector in zip(reducers[1:], inside[1:], strict=True):
                with pytest.raises(PeerLost):
                    reducer.reduce(vector, 1.0)


def mapped() -> int:
    """Return how many parts of ranks' memory this process has mapped."""
    gc.collect()
    return Path("/proc/self/maps").read_text("utf-8").count("memfd:tos-")


def forever(reducer: Reducer, vector: Array) -> None:
    while True:
        reducer.reduce(vector, 1.0)


@pytest.mark.usefixtures("only_own_garbage")
@pytest.mark.parametrize("at", [0, 1, 2, 7])
@pytest.mark.parametrize("name", ["ring", "halving", "two_level"])
def test_a_peer_that_is_killed_in_the_middle_is_lost_and_leaves_nothing(name: str, at: int) -> None:
    files, maps = {*Path("/dev/shm").iterdir()}, mapped()
    with listeners(1) as (listener,), memories(1) as (memory,):
        port, secret = listener.here.address.port, SECRET.hex()
        command = [sys.executable, "-m", "tests.unit.reduction.dying", str(at), str(port)]
        child = subprocess.Popen([*command, name, secret], cwd=ROOT)
        try:
            mesh = Mesh(listener, 0, [listener.here] * 2, memory=memory, near=(0, 1))
            mesh.form(LIMIT)
            assert mesh.within is Within.SHARED
            reducer, vector = Reducer(mesh, MAKE[name](2)), memory.vectors[: 1 << 22]
            with pytest.raises(PeerLost, match="rank 1"):
                forever(reducer, vector.view(np.float32))
            assert child.wait(LIMIT) == -signal.SIGKILL
        finally:
            child.kill()
            child.wait(LIMIT)
    del mesh, reducer, vector, memory
    assert {*Path("/dev/shm").iterdir()} == files
    assert mapped() == maps


REDUCERS: dict[str, Callable[[Mesh, int], Reducer]] = {
    "bf16": lambda mesh, n: CodedReducer(mesh, ring(n), as_codecs("bf16")),
    "int8": lambda mesh, n: CodedReducer(mesh, direct(n), as_codecs("int8")),
    "sign+ef": lambda mesh, n: CodedReducer(mesh, direct(n), as_codecs("sign+ef")),
    "median": lambda mesh, n: GatheringReducer(mesh, direct(n), Median().aggregate),
}


@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize("n", [2, 3])
def test_codecs_and_medians_have_the_same_bits_as_over_sockets(name: str, n: int) -> None:
    with memories(n) as held, meshes(n, memories=held) as near, meshes(n) as far:
        sharing, sending = ([REDUCERS[name](mesh, n) for mesh in each] for each in (near, far))
        outside = made(n, 700_001)
        inside = [placed(*each) for each in zip(held, outside, strict=True)]
        for _ in range(3):
            for reducers, vectors in ((sharing, inside), (sending, outside)):
                reduced(reducers, vectors, [1.0 + rank for rank in range(n)])
            assert len({each.tobytes() for each in (*inside, *outside)}) == 1


@settings(max_examples=20, deadline=None)
@given(
    make=st.sampled_from([*ALL, at_once]),
    weights=st.lists(st.sampled_from([0.0, 1e-30, 1.0, 7.0]), min_size=2, max_size=6),
    size=st.one_of(st.integers(0, 20), st.integers(16_000, 17_000), st.integers(0, 400_000)),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_any_sizes_and_weights_have_the_same_bits_as_over_sockets(
    make: Any, weights: list[float], size: int, dtype: str
) -> None:
    n = len(weights)
    outside = made(n, size, dtype)
    with memories(n) as held, meshes(n, memories=held) as near, meshes(n) as far:
        inside = [placed(*each) for each in zip(held, outside, strict=True)]
        reduced([Reducer(mesh, make(n)) for mesh in near], inside, weights)
        reduced([Reducer(mesh, make(n)) for mesh in far], outside, weights)
    for one, other in zip(inside, outside, strict=True):
        assert one.tobytes() == other.tobytes()
