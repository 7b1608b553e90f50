"""Sixteen bits: to the nearest, ties to even, over every number there is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.codecs.support import Array, one, trip
from tos_notebook.codecs import as_codec
from tos_notebook.errors import NonFiniteUpdate, RemoteProtocolError

INFINITY = {"bf16": 0x7F80, "fp16": 0x7C00}
both = pytest.mark.parametrize("name", list(INFINITY))


def finite(name: str) -> npt.NDArray[np.uint16]:
    """All finite numbers, as bits."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    return bits[(bits & 0x7FFF) < INFINITY[name]]


def meaning(name: str, bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    if name == "fp16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def encoded(name: str, vector: Array) -> npt.NDArray[np.uint16]:
    layout, update = one(vector)
    return as_codec(name).bind(layout).encode(update, 0).view(np.uint16).copy()


def decoded(name: str, vector: Array) -> Array:
    layout, update = one(vector)
    out = trip(as_codec(name).bind(layout), update).decoded
    return layout.tensors(out)["p0"]


@both
def test_every_number_is_read_as_it_was_written(name: str) -> None:
    bits = finite(name)
    np.testing.assert_array_equal(encoded(name, meaning(name, bits)), bits)
    np.testing.assert_array_equal(decoded(name, meaning(name, bits)), meaning(name, bits))


@both
def test_what_lies_between_goes_to_the_nearest_and_ties_to_even(name: str) -> None:
    lower = finite(name)
    lower = lower[(lower & 0x7FFF) < INFINITY[name] - 1]
    below, above = (meaning(name, bits).astype(np.float64) for bits in (lower, lower + 1))
    middle = ((below + above) / 2).astype(np.float32)
    even = lower + (lower & 1)
    # A float32 next to the middle, unless so small that float32 has none as fine.
    apart = np.abs(middle) > 2.0**-110
    np.testing.assert_array_equal(encoded(name, middle)[apart], even[apart])
    for target, bits in ((below, lower), (above, lower + 1)):
        nearer = np.nextafter(middle, target.astype(np.float32))
        # Below 2**-14 halves are fixed-point, and float32 first rounds to 2**-37 of them.
        fine = apart & (np.abs(middle) > 2.0**-14)
        np.testing.assert_array_equal(encoded(name, nearer)[fine], bits[fine])


def test_small_halves_are_those_of_numpy_up_to_ties() -> None:
    """Subnormal ones: most changes of a parameter are that small."""
    x = (np.random.default_rng(0).standard_normal(100_000) * 1e-5).astype(np.float32)
    with np.errstate(under="ignore"):
        expected = x.astype(np.float16)
    actual = decoded("fp16", x).astype(np.float16)
    assert np.mean(actual != expected) < 1e-3
    assert np.abs(actual.view(np.int16) - expected.view(np.int16)).max() <= 1


@both
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_too_large_becomes_the_largest(name: str, dtype: str) -> None:
    largest = meaning(name, np.array([INFINITY[name] - 1], np.uint16))[0]
    huge = np.finfo(dtype).max
    x = np.array([huge, -huge, largest, -largest, 1, -1], dtype)
    np.testing.assert_array_equal(decoded(name, x), [largest, -largest] * 2 + [1, -1])


@both
def test_nan_is_refused_on_both_sides(name: str) -> None:
    layout, update = one(np.array([1, np.nan, 1], np.float32))
    coder = as_codec(name).bind(layout)
    with pytest.raises(NonFiniteUpdate, match="got NaN"):
        coder.encode(update, 0)
    for bits in (INFINITY[name], INFINITY[name] | 0x8000, 0x7FFF, 0xFFFF):
        payload = np.array([0, bits, 0], np.uint16).view(np.uint8)
        with pytest.raises(RemoteProtocolError, match="NaN or infinity"):
            coder.decode(payload, layout.allocate())


@both
def test_float16_travels_as_it_is(name: str) -> None:
    x = finite("fp16").view(np.float16)
    np.testing.assert_array_equal(decoded(name, x).view(np.uint16), x.view(np.uint16))
