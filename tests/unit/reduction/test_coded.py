"""Encoded vectors over real sockets: fewer bytes, and the same bits of the mean on all ranks."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.reduction.conftest import meshes, together
from tests.unit.reduction.test_reducer import made, on_the_wire, reduced
from tests.unit.reduction.test_schedules import ALL
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.common.arrays import Array
from tos_notebook.errors import LocalProtocolError, PeerLost
from tos_notebook.reduction.coded import CodedReducer
from tos_notebook.reduction.reducer import Reducer
from tos_notebook.reduction.schedules import direct, halving, ring

FINENESS = {"bf16": 2.0**-8, "fp16": 2.0**-11}
"""By how much a value may be rounded, as a share of it."""


def reducers(formed: list[Any], make: Any, codec: str) -> list[Reducer]:
    return [CodedReducer(mesh, make(len(formed)), as_codecs(codec)) for mesh in formed]


def weighted(vectors: list[Array], weights: list[float]) -> Array:
    return np.average(np.stack(vectors).astype(float), axis=0, weights=weights)


@pytest.mark.parametrize("codec", ["bf16", "fp16"])
@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_halves_give_all_ranks_the_same_bits_of_the_mean(make: Any, n: int, codec: str) -> None:
    with meshes(n) as formed:
        made_once = reducers(formed, make, codec)
        for dtype in ("float32", "float64"):
            for size in (0, 1, 5, 150_001):
                vectors = made(n, size, dtype)
                weights = [1.0 + rank for rank in range(n)]
                expected, most = weighted(vectors, weights), np.abs(vectors).max(initial=0)
                reduced(made_once, vectors, weights)
                assert len({vector.tobytes() for vector in vectors}) == 1
                np.testing.assert_allclose(vectors[0], expected, 0, n * most * FINENESS[codec])


@pytest.mark.parametrize("codec", ["bf16", "fp16"])
@pytest.mark.parametrize("make", [ring, direct, halving])
@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_halves_take_half_the_bytes(make: Any, codec: str, tls: bool) -> None:
    n, size = 4, 250_000
    with meshes(n, tls) as formed:
        before = [on_the_wire(mesh) for mesh in formed]
        whole = reduced([Reducer(mesh, make(n)) for mesh in formed], made(n, size), [1.0] * n)
        between = [on_the_wire(mesh) for mesh in formed]
        half = reduced(reducers(formed, make, codec), made(n, size), [1.0] * n)
        after = [on_the_wire(mesh) for mesh in formed]
    for one, other in zip(half, whole, strict=True):
        assert sum(one.sent.values()) == pytest.approx(sum(other.sent.values()) / 2, rel=0.01)
    for start, middle, end in zip(before, between, after, strict=True):
        assert end - middle == pytest.approx((middle - start) / 2, rel=0.01)


@settings(max_examples=15, deadline=None)
@given(
    codec=st.sampled_from(["bf16", "fp16", "fp16/bf16", "fp32/bf16"]),
    make=st.sampled_from([ring, direct, halving]),
    weights=st.lists(st.sampled_from([0, 1e-30, 1, 3, 1000]), min_size=1, max_size=4),
    size=st.one_of(st.integers(1, 5), st.integers(1, 140_000)),
    scale=st.sampled_from([1e-6, 1.0, 6e4, 1e30]),
)
def test_whatever_the_weights_all_ranks_hold_the_same_bits(
    codec: str, make: Any, weights: list[float], size: int, scale: float
) -> None:
    n = len(weights)
    with meshes(n) as formed:
        vectors = [np.float32(scale) * vector for vector in made(n, size)]
        before = [vector.copy() for vector in vectors]
        took = reduced(reducers(formed, make, codec), vectors, weights)
        assert len({each.weight for each in took}) == 1
    if max(weights) < 1:
        np.testing.assert_array_equal(vectors, before)
        return
    assert len({vector.tobytes() for vector in vectors}) == 1
    assert np.isfinite(vectors[0]).all()
    if scale == 1.0:
        expected = weighted(before, weights)
        np.testing.assert_allclose(vectors[0], expected, 0, n * np.abs(before).max() / 256)


@pytest.mark.parametrize("codec", ["bf16", "int8"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_is_not_finite_makes_the_mean_nan_everywhere(
    codec: str, bad: float, rank: int
) -> None:
    with meshes(3) as formed:
        made_once = reducers(formed, direct, codec)
        vectors = made(3, 1000)
        vectors[rank][500] = bad
        took = reduced(made_once, vectors, [1.0, 2.0, 3.0])
        assert [each.weight for each in took] == [np.inf] * 3
        assert np.isnan(vectors).all()
        # Only that reduction, and not the one that follows.
        vectors = made(3, 1000)
        took = reduced(made_once, vectors, [1.0, 2.0, 3.0])
        assert [each.weight for each in took] == [6.0] * 3
        assert np.isfinite(vectors).all()


def test_ranks_of_other_codecs_say_so() -> None:
    with meshes(2) as formed:
        calls = [
            lambda mesh=mesh, codec=codec: CodedReducer(mesh, ring(2), as_codecs(codec)).reduce(  # type: ignore[misc]
                np.ones(1000, "float32"), 1.0
            )
            for mesh, codec in zip(formed, ("bf16", "int8"), strict=True)
        ]
        ended = together(calls)
        assert all(isinstance(error, PeerLost) for error in ended)
        assert any("by one codec" in str(error) for error in ended)


GARBAGE = {
    "no head": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "weight of NaN": struct.pack("<QQd", 1, 104, math.nan),
    "weight below 0": struct.pack("<QQd", 1, 104, -1.0),
    "values of NaN": struct.pack("<QQd", 1, 104, 1.0) + b"\xff" * 104,
}


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE)
def test_a_peer_that_sends_garbage_is_lost(sent: bytes) -> None:
    with meshes(2) as formed:
        formed[1].links[0].send_some(sent + bytes(1000), memoryview(b""))
        with pytest.raises(PeerLost, match="rank 1 to take part, but it sends"):
            CodedReducer(formed[0], ring(2), as_codecs("bf16")).reduce(np.ones(100, "float32"), 1.0)
        assert formed[0].closed


def test_what_cannot_be_reduced_in_place_is_refused() -> None:
    with meshes(1) as formed:
        (only,) = reducers(formed, ring, "bf16")
        for vector in (np.ones(3, "int64"), np.ones((3, 3)), np.ones(6)[::2]):
            with pytest.raises(LocalProtocolError, match="Expected a"):
                only.reduce(vector, 1.0)


LOSSY = ["int8", "int4", "int8+ef", "int4+ef", "sign+ef", "topk:0.01+ef", "topk:0.1+ef/int8"]


@settings(max_examples=15, deadline=None)
@given(
    codec=st.sampled_from(LOSSY),
    dtype=st.sampled_from(["float32", "float64"]),
    weights=st.lists(st.sampled_from([0, 1e-30, 1, 3, 1000]), min_size=1, max_size=4),
    size=st.integers(1, 140_000),
)
def test_any_codec_gives_all_ranks_the_same_bits_by_direct(
    codec: str, dtype: str, weights: list[float], size: int
) -> None:
    n = len(weights)
    with meshes(n) as formed:
        made_once = reducers(formed, direct, codec)
        for _ in range(3):
            vectors = made(n, size, dtype)
            before = [vector.copy() for vector in vectors]
            took = reduced(made_once, vectors, weights)
            assert len({each.weight for each in took}) == 1
            if max(weights) < 1:
                np.testing.assert_array_equal(vectors, before)
            else:
                assert len({vector.tobytes() for vector in vectors}) == 1
                assert np.isfinite(vectors[0]).all()


@pytest.mark.parametrize("codec", ["int8+ef", "int4+ef", "sign+ef", "topk:0.1+ef", "bf16+ef"])
def test_what_payloads_miss_comes_later(codec: str) -> None:
    n, size, rounds = 3, 3000, 60
    weights = [1.0, 2.0, 5.0]
    sums, expected = np.zeros(size), np.zeros(size)
    vectors = [np.empty(size, "float32") for _ in range(n)]
    random = np.random.default_rng(0)
    with meshes(n) as formed:
        made_once = reducers(formed, direct, codec)
        off = []
        for _ in range(rounds):
            for vector in vectors:
                vector[:] = random.standard_normal(size)
            expected += weighted(vectors, weights)
            reduced(made_once, vectors, weights)
            sums += vectors[0]
            off.append(float(np.abs(sums - expected).mean()))
    # It is as far off after many rounds as after some, and not by the square root of more.
    assert np.mean(off[-10:]) < 1.3 * np.mean(off[20:30])
    assert off[-1] < 0.5 * np.abs(expected).mean()


@pytest.mark.parametrize(("codec", "less"), [("int8", 3.9), ("sign+ef", 29), ("topk:0.01+ef", 60)])
def test_a_codec_saves_as_many_bytes_as_with_a_server(codec: str, less: float) -> None:
    n, size = 4, 1_000_000
    with meshes(n) as formed:
        whole = reduced([Reducer(mesh, direct(n)) for mesh in formed], made(n, size), [1.0] * n)
        few = reduced(reducers(formed, direct, codec), made(n, size), [1.0] * n)
    for one, other in zip(few, whole, strict=True):
        assert sum(other.sent.values()) > less * sum(one.sent.values())


def test_the_same_values_are_rounded_in_the_same_way_by_chance() -> None:
    found = []
    for skipped in (0, 3):
        with meshes(2) as formed:
            made_once = reducers(formed, direct, "int4")
            for size in range(1, skipped + 1):
                reduced(made_once, made(2, size), [1.0] * 2)
            vectors = made(2, 10_000)
            reduced(made_once, vectors, [1.0] * 2)
            found.append(vectors[0].tobytes())
    assert found[0] == found[1]
