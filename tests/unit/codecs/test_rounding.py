"""Whole numbers and a scale for each bucket: unbiased by chance, or to the nearest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.codecs.support import Array, floats, layout_of, one, trip, update_of
from tos_notebook.codecs import as_codec
from tos_notebook.codecs.buckets import BUCKET
from tos_notebook.errors import NonFiniteUpdate, RemoteProtocolError

LEVELS = {"int8": 127, "int4": 7}
both = pytest.mark.parametrize("name", list(LEVELS))


def scales(name: str, vector: Array) -> Array:
    """The step between two levels, for each element."""
    firsts = np.arange(0, vector.size, BUCKET)
    largest = np.maximum.reduceat(np.abs(vector), firsts)
    sizes = np.diff([*firsts, vector.size])
    return np.repeat(largest / LEVELS[name], sizes)


def mean_over_keys(name: str, vector: Array, keys: int) -> Array:
    layout, update = one(vector)
    coder, out = as_codec(name).bind(layout), layout.allocate()
    total = np.zeros(vector.size)
    for key in range(keys):
        coder.decode(coder.encode(update, key), out)
        total += floats(layout, out)
    return total / keys


def deviation(name: str, vector: Array, keys: int = 2000) -> float:
    """How far the mean is off, at worst, in standard deviations of a coin thrown each time."""
    off = np.abs(mean_over_keys(name, vector, keys) - vector)
    return float((off / (scales(name, vector) / 2 / np.sqrt(keys))).max())


VECTOR = (np.random.default_rng(1).standard_normal(BUCKET + 200) * 1e-3).astype(np.float32)


@both
def test_the_mean_over_keys_is_the_value_itself(name: str) -> None:
    assert deviation(name, VECTOR) < 4.5


@both
def test_the_nearest_level_is_taken_where_the_error_is_fed_back(name: str) -> None:
    """By chance it would be no contraction with few levels; so it may be biased."""
    layout, update = one(VECTOR)
    error = floats(layout, trip(as_codec(f"{name}+ef").bind(layout), update).residual)
    assert (np.abs(error) <= scales(name, VECTOR) * 0.501).all()
    assert (np.abs(error) <= np.abs(VECTOR) * (1 + 1e-6)).all()
    assert deviation(name, VECTOR, keys=50) < 4.5 < deviation_of_nearest(name)


def deviation_of_nearest(name: str) -> float:
    off = np.abs(mean_over_keys(f"{name}+ef", VECTOR, 2) - VECTOR)
    return float((off / (scales(name, VECTOR) / 2 / np.sqrt(2000))).max())


@both
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), key=st.integers(0, 2**64), size=st.integers(1, 1200))
def test_no_value_is_off_by_more_than_one_level(name: str, seed: int, key: int, size: int) -> None:
    layout = layout_of((size,))
    update = update_of(layout, seed)
    error = floats(layout, trip(as_codec(name).bind(layout), update, key).residual)
    allowed = scales(name, floats(layout, update)) * 1.001
    assert (np.abs(error) <= allowed).all()


@both
@pytest.mark.parametrize("largest", [1e-34, 1.0, 2.0**126])
def test_the_largest_value_never_rounds_past_the_last_level(name: str, largest: float) -> None:
    """There it would come out with the other sign."""
    vector = np.array([largest, -largest] * 256, np.float32)
    layout, update = one(vector)
    for key in range(300):
        decoded = floats(layout, trip(as_codec(name).bind(layout), update, key).decoded)
        np.testing.assert_allclose(decoded, vector, rtol=1.01 / LEVELS[name])


@both
def test_keys_pieces_and_tensors_are_rounded_independently(name: str) -> None:
    size = 1 << 16
    vector = np.full(2 * size, 0.5 / LEVELS[name], np.float32)
    vector[::BUCKET] = 1  # the scale of each bucket
    layout, update = one(vector)
    coder = as_codec(name).bind(layout)
    errors = [floats(layout, trip(coder, update, key).residual) for key in (1, 2)]
    halves = [np.delete(e, np.s_[::BUCKET])[: size - 128] for e in errors]
    later = np.delete(errors[0], np.s_[::BUCKET])[-(size - 128) :]
    for a, b in ((halves[0], halves[1]), (halves[0], later)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(size)


@both
def test_zeros_and_the_smallest_numbers_come_out_small(name: str) -> None:
    vector = np.array([0, -0.0, 1e-45, -1e-45, 1e-39] * 10, np.float32)
    layout, update = one(vector)
    assert np.abs(floats(layout, trip(as_codec(name).bind(layout), update).decoded)).max() < 2e-38


@both
def test_a_bucket_of_small_values_keeps_its_own_scale(name: str) -> None:
    vector = np.concatenate([np.full(BUCKET, 1e3), np.full(BUCKET, 1e-3)]).astype(np.float32)
    layout, update = one(vector)
    decoded = floats(layout, trip(as_codec(name).bind(layout), update).decoded)
    np.testing.assert_allclose(decoded, vector, rtol=1.01 / LEVELS[name])


@pytest.mark.parametrize("name", ["int8", "int4", "sign+ef"])
def test_scales_that_cannot_be_are_refused(name: str) -> None:
    layout, update = one(VECTOR)
    coder = as_codec(name).bind(layout)
    for bad in (np.nan, np.inf, -1e-3, 3e38):
        payload = coder.encode(update, 0).copy()
        payload[4:8].view(np.float32)[0] = bad
        with pytest.raises(RemoteProtocolError, match="Expected scales from 0 to"):
            coder.decode(payload, layout.allocate())


@pytest.mark.parametrize("name", ["int8", "int4", "sign+ef"])
def test_values_that_would_overflow_are_refused(name: str) -> None:
    layout, update = one(np.full(300, 3e38, np.float32))
    with pytest.raises(NonFiniteUpdate, match=r"values up to 8\.51e\+37"):
        as_codec(name).bind(layout).encode(update, 0)
