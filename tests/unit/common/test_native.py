"""What is compiled for small exchanges does as Python and numpy do, or leaves it to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tos_notebook.combiners.arithmetic import add_delta
from tos_notebook.common import native
from tos_notebook.common.content import DIGEST_SIZE
from tos_notebook.wire.frames import encode_head
from tos_notebook.wire.limits import MOST, MOST_METRICS
from tos_notebook.wire.messages import Finish, Poll, Push
from tos_notebook.wire.whole import Whole, read_whole

pytestmark = pytest.mark.skipif(
    native.extension is None, reason="needs a C compiler when this package is installed"
)

Vector = npt.NDArray[Any]

COUNTS = st.integers(0, MOST)
NUMBERS = st.floats(width=64)
SECONDS = st.floats(0, 1e9)
PUSHES = st.builds(
    Push,
    *[COUNTS] * 6,
    st.booleans(),
    NUMBERS,
    *[SECONDS] * 4,
    COUNTS,
    st.lists(NUMBERS, max_size=MOST_METRICS).map(tuple),
    st.binary(min_size=DIGEST_SIZE, max_size=DIGEST_SIZE),
)
MESSAGES = st.one_of(PUSHES, st.builds(Finish, *[COUNTS] * 3), st.builds(Poll, COUNTS))


def both(call: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what comes of a call with the extension, and without."""
    compiled = call()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "extension", None)
        return compiled, call()


def read(frame: bytes) -> tuple[Any, Any]:
    """Return what both make of a frame; NaN is equal to itself in a text."""
    data = memoryview(frame + b"more")

    def text() -> str:
        whole = read_whole(data, len(frame))
        return "" if whole is None else repr((*whole[:2], bytes(whole.payload)))

    return both(text)


@given(message=MESSAGES, number=st.integers(0, 2**32 - 1), payload=st.binary(max_size=40))
def test_both_read_the_same_of_a_frame(message: Any, number: int, payload: bytes) -> None:
    frame = encode_head(message, number, len(payload)) + payload
    compiled, plain = read(frame)
    assert compiled == plain
    assert bool(plain) is not isinstance(message, Poll)


@given(data=st.data(), message=PUSHES, payload=st.binary(max_size=20))
def test_both_refuse_the_same_frames(data: st.DataObject, message: Push, payload: bytes) -> None:
    """Cut off, with more behind them, and with any byte changed: numbers beyond their limits."""
    frame = bytearray(encode_head(message, 7, len(payload)) + payload)
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame) + 2))
    compiled, plain = read((bytes(frame) + b"xy")[:cut] if cut % 3 else bytes(frame))
    assert compiled == plain


def test_a_push_as_it_is_left_to_c() -> None:
    push = Push(0, 1, 2, 3, 4, 5, True, 0.5, 0.1, 0.2, 0.3, 0.4, 6, (1.5, 2.5))
    frame = encode_head(push, 9, 3) + b"abc"
    assert native.extension is not None
    assert native.extension.read_push(frame, len(frame), frame[:8], 1e9) is not None
    whole = read_whole(memoryview(frame), len(frame))
    assert isinstance(whole, Whole)
    assert type(whole.message) is Push
    assert (whole.sequence, whole.message, bytes(whole.payload)) == (9, push, b"abc")


def added(center: Vector, delta: Vector, divisor: float) -> tuple[Any, Any]:
    def add() -> Any:
        one, other = center.copy(), delta.copy()
        # A warning is told apart from an error, and from none.
        try:
            with np.errstate(all="raise", under="ignore"):
                add_delta(one, other, divisor)
        except FloatingPointError as error:
            return str(error)
        return one.tobytes(), other.tobytes()

    return both(add)


@settings(deadline=None)
@given(
    dtype=st.sampled_from(["float16", "float32", "float64", ">f4", "int32"]),
    size=st.integers(0, 100),
    scale=st.integers(-30, 30),
    divisor=st.one_of(st.integers(1, 2**40), st.floats(1, 1e30)),
    seed=st.integers(0, 99),
)
def test_both_add_the_same(dtype: str, size: int, scale: int, divisor: float, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    if dtype in ("float16", "int32"):
        scale = 1
    center, delta = ((numbers.normal(size=size) * 10.0**scale).astype(dtype) for _ in range(2))
    compiled, plain = added(center, delta, divisor)
    assert compiled == plain


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 5, 100, 40_000])
@pytest.mark.parametrize(("one", "other"), [(1.0, 1.0), (np.inf, -np.inf), (np.nan, 1.0)])
def test_both_say_the_same_of_what_is_no_number(
    dtype: str, size: int, one: float, other: float
) -> None:
    """One sum is beyond the dtype's range, or of infinities; NaN itself says nothing."""
    largest = np.finfo(dtype).max
    center, delta = np.ones(size, dtype), np.ones(size, dtype)
    center[-1], delta[-1] = (largest, largest) if one == other else (one, other)
    compiled, plain = added(center, delta, 1)
    assert compiled == plain
    assert isinstance(plain, str) is not bool(np.isnan(one))


def test_what_is_no_pair_of_vectors_is_left_to_numpy() -> None:
    assert native.extension is not None
    vector = np.ones(8, np.float32)
    fixed = np.ones(8, np.float32)
    fixed.flags.writeable = False
    others = [vector[::2], vector[:4], vector, vector.reshape(2, 4), fixed, vector.astype("f8")]
    others += [vector.astype(">f4"), np.zeros(33, np.uint8)[1:].view(np.float32), None]
    for other in others:
        assert native.extension.add_delta(vector, other, 1.0) == -1
    assert vector.tolist() == [1.0] * 8
