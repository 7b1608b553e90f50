"""The weighted mean over real sockets: right, the same everywhere, and with an end to each wait."""

from __future__ import annotations

import math
import os
import socket
import struct
import threading
from contextlib import closing
from functools import reduce
from time import monotonic
from typing import Any

import numpy as np
import pytest

from tests.support.long import few
from tests.support.threads import LIMIT
from tests.unit.reduction.conftest import meshes, together
from tests.unit.reduction.test_schedules import ALL, FLAT, by_twos
from tos_notebook.common.arrays import Array
from tos_notebook.errors import (
    ConfigError,
    ConnectionClosed,
    LocalProtocolError,
    PeerLost,
)
from tos_notebook.reduction.mesh import Mesh
from tos_notebook.reduction.reducer import Reducer, Traffic
from tos_notebook.reduction.schedules import at_once, direct, halving, ring

SIZES = [0, 1, 5, 1000, 300_001, 800_000]
"""Elements: fewer than ranks, and more than sockets hold."""


def made(n: int, size: int, dtype: str = "float32") -> list[Array]:
    random = np.random.default_rng(size)
    return [random.standard_normal(size).astype(dtype) for _ in range(n)]


def reduced(reducers: list[Reducer], vectors: list[Array], weights: list[float]) -> list[Traffic]:
    """Reduce in a thread for each rank."""
    ended = together(
        [
            lambda reducer=reducer, vector=vector, weight=weight: reducer.reduce(vector, weight)  # type: ignore[misc]
            for reducer, vector, weight in zip(reducers, vectors, weights, strict=True)
        ]
    )
    for result in ended:
        if isinstance(result, Exception):
            raise result
    return ended


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("n", few([1, 2, 3, 4, 8], 1, 2, 3, 4))
def test_all_ranks_end_with_the_same_bits_of_the_mean(make: Any, n: int) -> None:
    with meshes(n) as formed:
        reducers = [Reducer(mesh, make(n)) for mesh in formed]
        for dtype in ("float32", "float64"):
            for size in SIZES:
                vectors = made(n, size, dtype)
                expected = reduce(np.add, vectors) / np.float64(n).astype(dtype)
                reduced(reducers, vectors, [100.0] * n)
                assert len({vector.tobytes() for vector in vectors}) == 1
                np.testing.assert_allclose(vectors[0], expected, 0, 20 * np.finfo(dtype).eps)
                if make is direct:
                    assert vectors[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("make", ALL)
def test_the_same_over_tls(make: Any, n: int) -> None:
    with meshes(n, tls=True) as formed:
        reducers = [Reducer(mesh, make(n)) for mesh in formed]
        for size in SIZES:
            vectors = made(n, size)
            expected = reduce(np.add, vectors) / np.float32(n)
            reduced(reducers, vectors, [1.0] * n)
            assert len({vector.tobytes() for vector in vectors}) == 1
            np.testing.assert_allclose(vectors[0], expected, 0, 1e-6)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    "weights", [[8.0] * 5, [8.0, 3.0, 8.0, 0.0, 1.0], [0.0, 5.0, 1e-30], [2, 0]]
)
def test_at_once_gives_the_bits_of_direct(weights: list[float], tls: bool) -> None:
    """Long ones, too: what does not fit into a socket is sent while others are added."""
    n = len(weights)
    with meshes(n, tls=tls) as formed:
        for size in SIZES:
            both = []
            for make in (direct, at_once):
                vectors = made(n, size)
                traffic = reduced([Reducer(mesh, make(n)) for mesh in formed], vectors, weights)
                assert len({vector.tobytes() for vector in vectors}) == 1
                both.append((vectors[0].tobytes(), traffic[0].weight if size > n else 0.0))
            assert both[0] == both[1]


def test_weights_count() -> None:
    for make, n in ((ring, 3), (direct, 4), (halving, 5), (by_twos, 4)):
        with meshes(n) as formed:
            reducers = [Reducer(mesh, make(n)) for mesh in formed]
            vectors = made(n, 100_000, "float64")
            weights = [10.0, 10.0, 3.5, 0.25, 7.0][:n]
            expected = np.average(np.stack(vectors), axis=0, weights=weights)
            reduced(reducers, vectors, weights)
            assert len({vector.tobytes() for vector in vectors}) == 1
            np.testing.assert_allclose(vectors[0], expected, 1e-12, 1e-14)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("n", [3, 4, 5, 8])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_fewer_elements_than_ranks_have_one_weight_everywhere(make: Any, n: int, size: int) -> None:
    # Some parts are empty, and no messages of their own tell what others weigh.
    with meshes(n) as formed:
        reducers = [Reducer(mesh, make(n)) for mesh in formed]
        for busy in range(n):
            vectors = made(n, size)
            expected = vectors[busy].copy()
            weights = [3.0 * (rank == busy) for rank in range(n)]
            took = reduced(reducers, vectors, weights)
            assert {each.weight for each in took} == {3.0}
            np.testing.assert_array_equal(vectors, [expected] * n)


def test_integers_in_floats_are_exact() -> None:
    with meshes(4) as formed:
        random = np.random.default_rng(0)
        for make in (ring, direct, halving, by_twos):
            reducers = [Reducer(mesh, make(4)) for mesh in formed]
            vectors = [random.integers(-1000, 1000, 5001).astype("float32") for _ in range(4)]
            weights = [1.0, 2.0, 1.0, 4.0]
            expected = sum(w * v for w, v in zip(weights, vectors, strict=True)) / np.float32(8)
            reduced(reducers, vectors, weights)
            np.testing.assert_array_equal(vectors, [expected] * 4)


@pytest.mark.parametrize("make", ALL)
def test_a_vector_of_weight_0_counts_for_nothing(make: Any) -> None:
    n = 4
    with meshes(n) as formed:
        reducers = [Reducer(mesh, make(n)) for mesh in formed]
        for idle in ([0], [3], [1, 2], [0, 1, 2], [1, 2, 3]):
            vectors = made(n, 200_003)
            busy = [rank for rank in range(n) if rank not in idle]
            expected = reduce(np.add, [vectors[rank] for rank in busy]) / np.float32(len(busy))
            for rank in idle:
                vectors[rank][:] = np.nan
            reduced(reducers, vectors, [0.0 if rank in idle else 32.0 for rank in range(n)])
            assert len({vector.tobytes() for vector in vectors}) == 1
            np.testing.assert_allclose(vectors[0], expected, 0, 1e-6)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_without_any_weight_each_vector_stays_as_it_is(make: Any, n: int) -> None:
    with meshes(n) as formed:
        reducers = [Reducer(mesh, make(n)) for mesh in formed]
        for size in (3, 100_000):
            vectors = made(n, size)
            vectors[0][0] = np.nan
            before = [vector.copy() for vector in vectors]
            reduced(reducers, vectors, [0.0] * n)
            np.testing.assert_array_equal(vectors, before)


@pytest.mark.parametrize("make", FLAT)
@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_what_goes_over_the_socket_is_what_the_formula_says(make: Any, n: int, tls: bool) -> None:
    size = 250_000
    with meshes(n, tls) as formed:
        before = [on_the_wire(mesh) for mesh in formed]
        vectors = made(n, size)
        traffic = reduced([Reducer(mesh, make(n)) for mesh in formed], vectors, [1.0] * n)
        after = [on_the_wire(mesh) for mesh in formed]
    for rank, took in enumerate(traffic):
        assert sum(took.received.values()) == pytest.approx(after[rank] - before[rank], rel=0.01)
        for peer in took.sent:
            assert took.sent[peer] == traffic[peer].received[rank]
    if make is not halving or n != 3:
        expected = 2 * (n - 1) / n * size * 4
        assert [a - b for a, b in zip(after, before, strict=True)] == pytest.approx(
            [expected] * n, rel=0.01
        )


def on_the_wire(mesh: Mesh) -> int:
    """Return how many bytes the kernel has received from peers."""
    return sum(bytes_received(link.fileno()) for link in mesh.links.values())


def bytes_received(descriptor: int) -> int:
    with closing(socket.socket(fileno=os.dup(descriptor))) as sock:
        # tcp_info.tcpi_bytes_received, of Linux 4.1 and later.
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
    count: int = struct.unpack_from("Q", info, 128)[0]
    return count


def test_the_time_is_told_apart() -> None:
    with meshes(2) as formed:
        vectors = made(2, 500_000)
        took = reduced([Reducer(mesh, ring(2)) for mesh in formed], vectors, [1.0] * 2)
    for one in took:
        assert one.waited > 0
        assert one.reducing > 0


class Closing(threading.Thread):
    """Closes a mesh as soon as some bytes have come over one of its links."""

    def __init__(self, mesh: Mesh, after: int) -> None:
        super().__init__()
        self._mesh = mesh
        self._after = after

    def run(self) -> None:
        deadline = monotonic() + LIMIT
        while sum(link.received for link in self._mesh.links.values()) < self._after:
            assert monotonic() < deadline
        self._mesh.close()


@pytest.mark.parametrize("make", [ring, direct, halving, by_twos])
@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_a_peer_that_closes_in_the_middle_is_named_and_all_others_learn_it(
    make: Any, tls: bool
) -> None:
    n = 4
    with meshes(n, tls) as formed:
        closing_ = Closing(formed[2], 100_000)
        closing_.start()
        calls = [
            lambda mesh=mesh: Reducer(mesh, make(n)).reduce(np.ones(8_000_000, "float32"), 1.0)  # type: ignore[misc]
            for mesh in formed
        ]
        ended = together(calls)
        closing_.join(LIMIT)
        for rank, error in enumerate(ended):
            assert isinstance(error, ConnectionClosed if rank == 2 else PeerLost)
        assert any(error.rank == 2 for rank, error in enumerate(ended) if rank != 2)
        assert all(mesh.closed for mesh in formed)
        for mesh, call in zip(formed, calls, strict=True):
            assert mesh.closed
            with pytest.raises(ConnectionClosed, match="on this side"):
                call()


@pytest.mark.parametrize("size", [100, 4_000_000])
@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_a_peer_that_is_silent_for_too_long_is_lost(tls: bool, size: int) -> None:
    with meshes(2, tls, patience=0.2) as formed:
        with pytest.raises(PeerLost, match=r"rank 1 .* was silent for 0\.2 s") as caught:
            Reducer(formed[0], ring(2)).reduce(np.ones(size, "float32"), 1.0)
        assert caught.value.rank == 1
        with pytest.raises(PeerLost, match="rank 0"):
            Reducer(formed[1], ring(2)).reduce(np.ones(size, "float32"), 1.0)


def test_ranks_that_reduce_vectors_of_other_sizes_say_so() -> None:
    with meshes(2) as formed:
        calls = [
            lambda mesh=mesh: Reducer(mesh, ring(2)).reduce(np.ones(100 + mesh.rank), 1.0)  # type: ignore[misc]
            for mesh in formed
        ]
        ended = together(calls)
        assert all(isinstance(error, PeerLost) for error in ended)
        assert any("of reduction 1, and not" in str(error) for error in ended)


GARBAGE = {
    "no head": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "unit of 0": struct.pack("<QQdd", 1, 400, 0.0, 1.0),
    "weight of NaN": struct.pack("<QQdd", 1, 400, 1.0, math.nan),
    "weight below 0": struct.pack("<QQdd", 1, 400, 1.0, -1.0),
    "no bound": struct.pack("<QQdd", 1, 400, 1.0, math.inf),
}


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_a_peer_that_sends_garbage_is_lost(sent: bytes, tls: bool) -> None:
    with meshes(2, tls) as formed:
        formed[1].links[0].send_some(sent + bytes(1000), memoryview(b""))
        with pytest.raises(PeerLost, match="rank 1 to take part, but it sends"):
            Reducer(formed[0], ring(2)).reduce(np.ones(100), 1.0)
        assert formed[0].closed


@pytest.mark.parametrize(
    "vector",
    [
        np.ones(3, "int64"),
        np.ones((3, 3)),
        np.ones(6)[::2],
        np.frombuffer(np.ones(3).tobytes()),
    ],
    ids=["integers", "matrix", "strided", "read-only"],
)
def test_what_cannot_be_reduced_in_place_is_refused_and_leaves_the_mesh_open(vector: Any) -> None:
    with meshes(1) as (mesh,):
        with pytest.raises(LocalProtocolError, match="Expected a"):
            Reducer(mesh, ring(1)).reduce(vector, 1.0)
        assert not mesh.closed


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_that_is_none_is_refused(weight: Any) -> None:
    with meshes(1) as (mesh,):
        with pytest.raises(ConfigError, match="weight: expected a finite number of at least 0"):
            Reducer(mesh, ring(1)).reduce(np.ones(3), weight)
        assert not mesh.closed


def test_a_schedule_for_other_ranks_is_refused() -> None:
    with (
        meshes(2) as formed,
        pytest.raises(LocalProtocolError, match="schedule for 2 ranks, got one for 3"),
    ):
        Reducer(formed[0], ring(3))


def test_one_reducer_takes_vectors_of_several_sizes_and_dtypes_in_turn() -> None:
    with meshes(3) as formed:
        reducers = [Reducer(mesh, direct(3)) for mesh in formed]
        for size, dtype in [(70_000, "float32"), (9, "float64"), (70_000, "float64"), (5, "f2")]:
            vectors = made(3, size, dtype)
            expected = reduce(np.add, vectors) / np.dtype(dtype).type(3)
            reduced(reducers, vectors, [1.0] * 3)
            np.testing.assert_array_equal(vectors, [expected] * 3)
