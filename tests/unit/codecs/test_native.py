"""Who has a C compiler and who has none understand each other, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.codecs.conftest import WITH_KERNELS
from tests.unit.codecs.support import LARGE, layouts, update_of
from tests.unit.codecs.support import NAMES as ALL
from tos_notebook.codecs import Coder, as_codec, native
from tos_notebook.layout import Layout

NAMES = ("int8", "int8+ef", "sign+ef")
every_codec = pytest.mark.parametrize("name", NAMES)

Vector = npt.NDArray[np.float32]


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Have both at once, instead of one after the other."""
    if native.extension is None:
        pytest.skip("needs a C compiler when this package is installed")


def test_the_codecs_that_run_with_and_without_kernels_are_those_that_have_some() -> None:
    families = {name.partition("+")[0] for name in ALL}
    assert {name for name in families if native.kernels_of(name)} == set(WITH_KERNELS)


def both(name: str, layout: Layout) -> tuple[Coder, Coder]:
    """Return a coder with kernels in C, and one without."""
    compiled = as_codec(name).bind(layout)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "extension", None)
        return compiled, as_codec(name).bind(layout)


def vectors(size: int, seed: int = 0) -> tuple[Vector, Vector, npt.NDArray[np.int8]]:
    """Return values, scales and codes of one piece."""
    values = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    return values, np.zeros(-(-size // 512), np.float32), np.zeros(size, np.int8)


@every_codec
@settings(max_examples=30, deadline=None)
@given(layout=layouts(("float32", "float16")), seed=st.integers(0, 99), key=st.integers(0, 2**64))
def test_both_say_and_understand_the_same(name: str, layout: Layout, seed: int, key: int) -> None:
    update = update_of(layout, seed)
    compiled, plain = both(name, layout)
    rests = layout.allocate(), layout.allocate()
    payload = compiled.encode(update, key, rests[0])
    other = plain.encode(update, key, rests[1])
    if name.startswith("int8"):
        assert payload.tobytes() == other.tobytes()
        assert rests[0].tobytes() == rests[1].tobytes()
    for use in ("decode", "add"):
        outs = update_of(layout, seed + 1), update_of(layout, seed + 1)
        getattr(compiled, use)(payload, outs[0])
        getattr(plain, use)(payload, outs[1])
        assert outs[0].tobytes() == outs[1].tobytes()


@every_codec
def test_one_end_follows_what_the_other_adds(name: str) -> None:
    compiled, plain = both(name, LARGE)
    for server, worker in ((compiled, plain), (plain, compiled)):
        center, known, adopted = update_of(LARGE, 1), update_of(LARGE, 2), update_of(LARGE, 2)
        worker.add(server.follow(center, known, key=5), adopted)
        assert known.tobytes() == adopted.tobytes()


def test_mean_magnitudes_differ_by_rounding_only() -> None:
    compiled, plain = both("sign+ef", LARGE)
    update = update_of(LARGE)
    one, other = LARGE.allocate(), LARGE.allocate()
    compiled.decode(compiled.encode(update, 0), one)
    plain.decode(plain.encode(update, 0), other)
    for mine, its in zip(LARGE.vectors(one), LARGE.vectors(other), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-3 if mine.itemsize == 2 else 1e-6)


def test_a_tie_is_rounded_to_the_even_number() -> None:
    assert native.extension is not None
    values, scales, codes = vectors(6)
    values[:] = [127, 0.5, 1.5, 2.5, -0.5, -2.5]
    assert native.extension.encode_int8(values, None, scales, codes, None, 127.0, 1e-38) == 127
    assert codes.tolist() == [127, 0, 2, 2, 0, -2]


@pytest.mark.parametrize(
    ("which", "wrong", "expected"),
    [
        (0, np.zeros(512, np.float32), "scales: expected 1 items, got 2"),
        (0, np.zeros(600, np.float64), "values: .* of format f, got 1 of items of format d"),
        (0, np.zeros((6, 100), np.float32), "values: expected 1 dimension .* got 2"),
        (1, np.zeros(599, np.float32), "known: expected 600 items, got 599"),
        (2, np.zeros(3, np.float32), "scales: expected 2 items, got 3"),
        (3, np.zeros(601, np.int8), "codes: expected 600 items, got 601"),
        (4, np.zeros(1, np.float32), "dither: expected 600 items, got 1"),
        (0, np.zeros(600, np.int32), "values: .* of format f, got 1 of items of format i"),
        (0, np.zeros(600, ">f4"), "values: .* of format f, got 1 of items of format >f"),
        (1, np.zeros(2401, np.uint8)[1:].view(np.float32), "known: .* multiple of 4"),
        (3, np.zeros(600, bool), "codes: .* of format bB"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(which: int, wrong: Any, expected: str) -> None:
    assert native.extension is not None
    values, scales, codes = vectors(600)
    given: list[Any] = [values, None, scales, codes, None]
    given[which] = wrong
    with pytest.raises(ValueError, match=expected):
        native.extension.encode_int8(*given, 127.0, 1e-38)
    assert not codes.any()


@pytest.mark.parametrize("family", ["int8", "sign"])
def test_what_codes_miss_of_nothing_is_refused(family: str) -> None:
    values, scales, codes = vectors(600)
    codes = codes if family == "int8" else np.zeros(75, np.uint8)  # type: ignore[assignment]
    with pytest.raises(TypeError, match="expected what was encoded, got None"):
        getattr(native.extension, f"residual_{family}")(codes, scales, values, None)


@pytest.mark.parametrize(
    ("levels", "least"),
    [(0.0, 1e-38), (np.nan, 1e-38), (-1.0, 1e-38), (128.0, 1e-38), (127.0, 0.0), (127.0, np.inf)],
)
def test_levels_that_do_not_fit_into_a_byte_are_refused(levels: float, least: float) -> None:
    assert native.extension is not None
    values, scales, codes = vectors(600)
    with pytest.raises(ValueError, match="1 to 127 and a positive scale"):
        native.extension.encode_int8(values, None, scales, codes, None, levels, least)


def test_scales_may_have_any_address() -> None:
    assert native.extension is not None
    values, scales, codes = vectors(600)
    odd = np.zeros(9, np.uint8)[1:].view(np.float32)
    native.extension.encode_int8(values, None, scales, codes, None, 127.0, 1e-38)
    native.extension.encode_int8(values, None, odd, codes, None, 127.0, 1e-38)
    assert odd.tolist() == scales.tolist()


@pytest.mark.parametrize(
    ("name", "count"),
    [("encode_sign", 4), ("decode_sign", 3), ("add_int8", 3), ("residual_int8", 4)],
)
def test_what_is_no_vector_is_refused(name: str, count: int) -> None:
    with pytest.raises(TypeError, match="bytes-like"):
        getattr(native.extension, name)(*[0.5] * count)


def test_what_must_not_change_is_not_written_to() -> None:
    assert native.extension is not None
    values, scales, codes = vectors(600)
    values.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        native.extension.decode_int8(codes, scales, values)


def test_it_holds_no_vector_longer_than_it_computes() -> None:
    assert native.extension is not None
    values, scales, codes = vectors(600)
    raw = bytearray(values.tobytes())
    native.extension.decode_int8(codes, scales, memoryview(raw).cast("f"))
    with pytest.raises(ValueError, match="codes"):
        native.extension.decode_int8(codes[:-1], scales, memoryview(raw).cast("f"))
    raw.clear()
