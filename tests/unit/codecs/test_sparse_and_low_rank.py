"""Signs, the few largest values, and matrices of a low rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.codecs.support import LARGE, Array, floats, layout_of, one, trip, update_of
from tos_notebook.codecs import as_codec
from tos_notebook.codecs.buckets import BUCKET
from tos_notebook.errors import RemoteProtocolError


def decoded(name: str, array: Array, key: int = 0) -> Array:
    layout, update = one(array)
    return layout.tensors(trip(as_codec(name).bind(layout), update, key).decoded)["p0"]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), size=st.integers(9, 1200))
def test_sign_sends_the_mean_magnitude_of_each_bucket(seed: int, size: int) -> None:
    layout = layout_of((size,))
    vector = floats(layout, update_of(layout, seed)).astype(np.float32)
    buckets = [vector[i : i + BUCKET] for i in range(0, size, BUCKET)]
    expected = [np.abs(b).mean(dtype=np.float64) * np.where(b < 0, -1, 1) for b in buckets]
    np.testing.assert_allclose(decoded("sign+ef", vector), np.concatenate(expected), rtol=1e-5)


def assert_largest(vector: Array, count: int) -> None:
    found = decoded(f"topk:{count / vector.size!r}+ef", vector)
    sent = np.flatnonzero(found)
    np.testing.assert_array_equal(found[sent], vector[sent])
    expected = np.sort(np.abs(vector))[-count:]
    np.testing.assert_array_equal(np.sort(np.abs(found))[-count:], expected)
    assert sent.size == np.count_nonzero(expected)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    size=st.sampled_from([10, 500, 5000, 70_000]),
    fraction=st.floats(0.001, 0.4),
    zeros=st.sampled_from([0, 0.5, 0.999, 1]),
)
def test_topk_sends_exactly_the_largest(
    seed: int, size: int, fraction: float, zeros: float
) -> None:
    """However many they are, and if fewer than that are not zero, all of these."""
    rng = np.random.default_rng(seed)
    vector = rng.standard_cauchy(size) * (rng.random(size) >= zeros)
    assert_largest(vector.astype(np.float32), max(1, int(fraction * size)))


@pytest.mark.parametrize("size", [100, 200_000])
def test_topk_of_equal_magnitudes_sends_as_many_as_it_should(size: int) -> None:
    vector = np.where(np.arange(size) % 3 == 0, -1, 1).astype(np.float32)
    assert np.count_nonzero(decoded("topk:0.01+ef", vector)) == size // 100


def test_topk_finds_what_a_sample_misses() -> None:
    """The largest are all where no sample is taken; the estimate is then far too high or low."""
    vector = np.full(200_000, 1e-3, np.float32)
    vector[100:2100] = np.arange(1, 2001)
    assert_largest(vector, 2000)
    vector[:] = np.random.default_rng(0).random(vector.size) * 1e-3
    vector[:: 200_000 // 4096 | 1] += 1
    assert_largest(vector, 6000)


def test_topk_counts_over_all_parameters_of_a_dtype() -> None:
    update = update_of(LARGE)
    found = LARGE.tensors(trip(as_codec("topk:0.01+ef").bind(LARGE), update).decoded)
    singles = [t for t in found.values() if t.dtype == np.float32]
    size = sum(tensor.size for tensor in singles)
    assert sum(np.count_nonzero(t) for t in singles) == round(size / 100)


def test_topk_refuses_counts_and_places_that_cannot_be() -> None:
    layout, update = one(np.arange(1, 101, dtype=np.float32))
    coder = as_codec("topk:0.02+ef").bind(layout)
    good = coder.encode(update, 0).copy()
    for change, message in (
        ((slice(0, 4), np.uint32(3)), "Expected 2 values in a payload, got 3"),
        ((slice(4, 8), np.float32(np.nan)), "NaN or infinity"),
        ((slice(12, 14), np.uint16(100)), "behind its end"),
    ):
        payload = good.copy()
        where, value = change
        payload[where] = np.frombuffer(value.tobytes(), np.uint8)
        with pytest.raises(RemoteProtocolError, match=message):
            coder.decode(payload, layout.allocate())


def low_rank(rank: int, rows: int = 60, columns: int = 40, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    product = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
    return product.astype(np.float32)


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (5, 12, 40), (70_000, 3)])
def test_powersgd_sends_a_matrix_of_its_rank_as_it_is(shape: tuple[int, ...]) -> None:
    matrix = low_rank(2, int(np.prod(shape[:-1])), shape[-1]).reshape(shape)
    layout, update = one(matrix)
    assert as_codec("powersgd:2+ef").bind(layout).nbytes < update.nbytes
    np.testing.assert_allclose(decoded("powersgd:2+ef", matrix), matrix, atol=1e-4)


def test_powersgd_comes_near_the_best_that_its_rank_can_do() -> None:
    matrix = low_rank(40) * np.geomspace(1, 1e-3, 40, dtype=np.float32)
    singular = np.linalg.svd(matrix, compute_uv=False)
    best = np.linalg.norm(singular[4:])
    layout, update = one(matrix)
    coder = as_codec("powersgd:4+ef").bind(layout)
    errors = [np.linalg.norm(floats(layout, trip(coder, update, key).residual)) for key in range(8)]
    assert best * (1 - 1e-5) <= errors[-1] < best * 1.05
    assert errors[-1] < errors[0], "it goes on from the last update"


def test_powersgd_sees_directions_that_the_last_update_did_not_have() -> None:
    """After an update along one direction, or none, nothing must be lost of the next."""
    first, none, second = np.zeros((3, 60, 40), np.float32)
    first[0, 0] = second[1, 1] = 1
    layout = layout_of((60, 40))
    coder = as_codec("powersgd:1+ef").bind(layout)
    for key, matrix in enumerate((first, none, second, first)):
        error = np.linalg.norm(floats(layout, trip(coder, layout.pack([matrix]), key).residual))
        assert error < 1e-5


def test_powersgd_repeats_an_update_under_its_key() -> None:
    """It remembers the last update, but a retry of that one is no new one."""
    layout = layout_of((60, 40))
    coder = as_codec("powersgd:2+ef").bind(layout)
    _, first, again = (coder.encode(update_of(layout, key), key).copy() for key in (1, 2, 2))
    np.testing.assert_array_equal(first, again)
    cold = as_codec("powersgd:2+ef").bind(layout).encode(update_of(layout, 2), 2)
    assert (cold != first).any()


def test_powersgd_sends_vectors_and_small_matrices_as_they_are() -> None:
    layout = layout_of((7,), (2, 3), (60, 40), ())
    update = update_of(layout)
    residual = layout.tensors(trip(as_codec("powersgd:4+ef").bind(layout), update).residual)
    assert [name for name, tensor in residual.items() if tensor.any()] == ["p2"]


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e30])
def test_powersgd_works_at_any_scale(scale: float) -> None:
    matrix = low_rank(2) * np.float32(scale)
    layout, update = one(matrix)
    coder = as_codec("powersgd:2+ef").bind(layout)
    for key in range(3):
        found = layout.tensors(trip(coder, update, key).decoded)["p0"]
        np.testing.assert_allclose(found, matrix, rtol=0, atol=1e-4 * scale)


def test_powersgd_refuses_factors_that_might_overflow() -> None:
    layout, update = one(low_rank(2))
    coder = as_codec("powersgd:2+ef").bind(layout)
    for place, bad in ((0, np.nan), (0, 3.0), (-1, np.inf), (-1, 3e38)):
        payload = coder.encode(update, 0).copy()
        payload.view(np.float32)[place] = bad
        with pytest.raises(RemoteProtocolError, match="Expected two factors"):
            coder.decode(payload, layout.allocate())
