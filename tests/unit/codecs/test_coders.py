"""What holds for every codec: nothing is lost unnoticed, nothing else is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support.long import examples
from tests.unit.codecs.support import (
    LARGE,
    NAMES,
    TWO_NN,
    WITH_FEEDBACK,
    Array,
    Bytes,
    floats,
    layout_of,
    layouts,
    one,
    padding,
    trip,
    update_of,
    updates,
    values,
)
from tos_notebook.codecs import as_codec
from tos_notebook.errors import NonFiniteUpdate, RemoteProtocolError
from tos_notebook.layout import Layout

few = examples(0.2)
every_codec = pytest.mark.parametrize("name", NAMES)


def assert_residual(layout: Layout, update: Bytes, decoded: Bytes, residual: Bytes) -> None:
    buffers = (values(layout, buffer) for buffer in (update, decoded, residual))
    for sent, received, rest in zip(*buffers, strict=True):
        np.testing.assert_array_equal(rest, sent - received)
        assert sent.dtype.kind == "f" or not rest.any(), "integers travel as they are"


@every_codec
@few
@given(case=updates())
def test_the_residual_is_what_the_receiver_misses(name: str, case: tuple[Layout, Bytes]) -> None:
    layout, update = case
    before = update.copy()
    _, decoded, residual = trip(as_codec(name).bind(layout), update)
    assert_residual(layout, update, decoded, residual)
    np.testing.assert_array_equal(update, before)


@every_codec
def test_an_update_of_many_pieces_survives(name: str) -> None:
    update = update_of(LARGE)
    _, decoded, residual = trip(as_codec(name).bind(LARGE), update)
    assert_residual(LARGE, update, decoded, residual)
    sent, rest = floats(LARGE, update), floats(LARGE, residual)
    assert np.linalg.norm(rest) < np.linalg.norm(sent)


@every_codec
@few
@given(case=updates())
def test_the_residual_may_take_the_place_of_the_update(
    name: str, case: tuple[Layout, Bytes]
) -> None:
    layout, update = case
    expected = trip(as_codec(name).bind(layout), update)
    payload = as_codec(name).bind(layout).encode(update, 1, update)
    np.testing.assert_array_equal(payload, expected.payload)
    for actual, rest in zip(values(layout, update), values(layout, expected.residual), strict=True):
        np.testing.assert_array_equal(actual, rest)


@every_codec
@few
@given(case=updates(), key=st.integers(0, 2**64))
def test_one_key_and_update_always_give_one_payload(
    name: str, case: tuple[Layout, Bytes], key: int
) -> None:
    """So that a retry sends the same bytes, by the same coder or by another."""
    layout, update = case
    coder = as_codec(name).bind(layout)
    first = coder.encode(update, key).copy()
    np.testing.assert_array_equal(coder.encode(update, key), first)
    np.testing.assert_array_equal(as_codec(name).bind(layout).encode(update, key), first)
    assert first.shape == (coder.nbytes,)


def move(coder: Any, payload: Bytes, parameters: Bytes) -> Bytes:
    """Decode a payload and add it, tensor by tensor."""
    decoded, moved = coder.layout.allocate(), parameters.copy()
    coder.decode(payload, decoded)
    with np.errstate(over="ignore"):
        for tensor, more in zip(*(values(coder.layout, b) for b in (moved, decoded)), strict=True):
            tensor += more
    return moved


@every_codec
@few
@given(case=updates(), seed=st.integers(0, 1000))
def test_both_ends_move_by_a_reply_to_the_bit(
    name: str, case: tuple[Layout, Bytes], seed: int
) -> None:
    """From whatever they were to about the new parameters, nothing but tensors touched."""
    layout, new = case
    known = update_of(layout, seed)
    padded, unused = known.copy(), padding(layout)
    padded[unused] = 0x55
    theirs, moved = padded.copy(), padded.copy()
    payload = as_codec(name).bind(layout).follow(new, moved, 1).copy()
    np.testing.assert_array_equal(
        moved[~unused], move(as_codec(name).bind(layout), payload, known)[~unused]
    )
    as_codec(name).bind(layout).add(payload, theirs)
    np.testing.assert_array_equal(theirs, moved)
    assert (moved[unused] == 0x55).all()
    difference = layout.allocate()
    for to, a, b in zip(*(values(layout, x) for x in (difference, new, known)), strict=True):
        np.subtract(a, b, out=to)
    np.testing.assert_array_equal(as_codec(name).bind(layout).encode(difference, 1), payload)


@every_codec
def test_a_reply_of_many_pieces_survives(name: str) -> None:
    new, known = update_of(LARGE), LARGE.allocate()
    payload = as_codec(name).bind(LARGE).follow(new, known, 1)
    other = LARGE.allocate()
    as_codec(name).bind(LARGE).add(payload, other)
    np.testing.assert_array_equal(known, other)
    np.testing.assert_array_equal(as_codec(name).bind(LARGE).encode(new, 1), payload)


@every_codec
@few
@given(case=updates())
def test_padding_has_no_influence_and_is_left_alone(name: str, case: tuple[Layout, Bytes]) -> None:
    layout, update = case
    expected = trip(as_codec(name).bind(layout), update)
    unused = padding(layout)
    update[unused] = 0x7C  # huge as any dtype
    residual, decoded = (np.full(layout.nbytes, 0x55, np.uint8) for _ in range(2))
    coder = as_codec(name).bind(layout)
    np.testing.assert_array_equal(coder.encode(update, 1, residual), expected.payload)
    coder.decode(expected.payload, decoded)
    for actual, wanted in ((residual, expected.residual), (decoded, expected.decoded)):
        np.testing.assert_array_equal(actual[~unused], wanted[~unused])
        assert (actual[unused] == 0x55).all()


@every_codec
@few
@given(layout=layouts())
def test_no_payload_is_longer_than_the_values_themselves(name: str, layout: Layout) -> None:
    raw = sum(tensor.nbytes for tensor in values(layout, layout.allocate()))
    parts = len(layout.segments) + len(layout)  # each of them may begin up to 7 bytes later
    assert as_codec(name).bind(layout).nbytes <= raw + 7 * parts


@every_codec
@few
@given(data=st.data())
def test_a_payload_of_garbage_is_refused_or_gives_finite_values(
    name: str, data: st.DataObject
) -> None:
    layout = data.draw(layouts())
    coder = as_codec(name).bind(layout)
    garbage = data.draw(st.binary(min_size=coder.nbytes, max_size=coder.nbytes))
    assert_harmless(coder, np.frombuffer(garbage, np.uint8))


@every_codec
@few
@given(changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=20))
def test_a_damaged_payload_is_refused_or_gives_finite_values(
    name: str, changes: list[tuple[float, int]]
) -> None:
    coder = as_codec(name).bind(SMALL)
    payload = coder.encode(update_of(SMALL), 1).copy()
    for where, byte in changes:
        payload[int(where * (payload.size - 1))] = byte
    assert_harmless(coder, payload)


SMALL = Layout(
    [*layout_of((30, 20), (5,)).specs, *(s for s in LARGE.specs if s.name in ("short", "count"))]
)


def assert_harmless(coder: Any, payload: Bytes) -> None:
    layout = coder.layout
    guarded = np.full(layout.nbytes + 128, 0x55, np.uint8)
    out = guarded[64:-64]
    try:
        coder.decode(payload, out)
    except RemoteProtocolError:
        pass
    else:
        assert np.isfinite(floats(layout, out)).all()
    guarded[64:-64][~padding(layout)] = 0x55
    assert (guarded == 0x55).all()


@every_codec
@pytest.mark.parametrize("difference", [-1, 1])
def test_a_payload_of_another_length_is_refused(name: str, difference: int) -> None:
    coder = as_codec(name).bind(SMALL)
    payload = np.zeros(coder.nbytes + difference, np.uint8)
    with pytest.raises(RemoteProtocolError, match=f"Expected a payload of {coder.nbytes} bytes"):
        coder.decode(payload, SMALL.allocate())
    with pytest.raises(RemoteProtocolError, match=f"Expected a payload of {coder.nbytes} bytes"):
        coder.add(payload, SMALL.allocate())


@pytest.mark.parametrize("name", [name for name in NAMES if "fp" not in name])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("where", [0, 0.5, 1])
def test_a_diverged_update_is_refused(name: str, dtype: str, where: float) -> None:
    bad = [np.nan] if "bf16" in name else [np.nan, np.inf, -np.inf]
    for value in bad:
        matrix = np.full((600, 30), 1e-3, dtype)
        matrix.reshape(-1)[int(where * (matrix.size - 1))] = value
        layout, update = one(matrix)
        with pytest.raises(NonFiniteUpdate, match="Expected"):
            as_codec(name).bind(layout).encode(update, 1)


MAGNITUDES = st.one_of(st.just(0.0), st.floats(2.0**-40, 2.0**40, width=32))
MATRICES = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    elements=st.builds(np.copysign, MAGNITUDES, st.sampled_from([1, -1])),
)


@pytest.mark.parametrize("name", WITH_FEEDBACK)
@few
@given(matrix=MATRICES)
def test_feedback_meets_a_contraction(name: str, matrix: Array) -> None:
    """Else what is fed back grows from update to update: ‖a − C(a)‖ ≤ ‖a‖."""
    layout, update = one(matrix)
    error = np.linalg.norm(floats(layout, trip(as_codec(name).bind(layout), update).residual))
    norm = np.linalg.norm(matrix.astype(np.float64))
    assert error <= norm * (1 + 1e-6)
    if norm and as_codec(name).biased:
        assert error < norm


@pytest.mark.parametrize("name", WITH_FEEDBACK)
@few
@given(case=updates(("float16", "float32", "float64")))
def test_feedback_meets_a_contraction_in_every_dtype(name: str, case: tuple[Layout, Bytes]) -> None:
    layout, update = case
    error = np.linalg.norm(floats(layout, trip(as_codec(name).bind(layout), update).residual))
    assert error <= np.linalg.norm(floats(layout, update)) * (1 + 1e-3)


@pytest.mark.parametrize("name", WITH_FEEDBACK)
def test_what_is_fed_back_arrives_in_the_end(name: str) -> None:
    """Over many rounds, what was decoded and what is still owed add up to all updates."""
    layout = layout_of((60, 40), (40,))
    coder = as_codec(name).bind(layout)
    owed, decoded = layout.allocate(), layout.allocate()
    given_total, received = np.zeros(layout.size), np.zeros(layout.size)
    for round_ in range(60):
        update = update_of(layout, round_)
        given_total += floats(layout, update)
        owed.view(np.float32)[:] += update.view(np.float32)
        coder.decode(coder.encode(owed, round_, owed), decoded)
        received += floats(layout, decoded)
    rest = floats(layout, owed)
    np.testing.assert_allclose(received + rest, given_total, rtol=0, atol=60 * 1e-6)
    assert np.linalg.norm(rest) < 30 * np.linalg.norm(floats(layout, update))


@few
@given(case=updates())
def test_fp32_changes_no_bit(case: tuple[Layout, Bytes]) -> None:
    layout, update = case
    np.testing.assert_array_equal(trip(as_codec("fp32").bind(layout), update).decoded, update)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        *(("fp32", 1), ("bf16", 2), ("fp16", 2), ("int8", 3.95), ("int4", 7.8)),
        *(("sign+ef", 30), ("topk:0.01+ef", 50), ("powersgd:4+ef", 29)),
    ],
)
def test_an_update_of_a_common_network_becomes_as_small_as_told(name: str, least: float) -> None:
    codec = as_codec(name)
    ratio = TWO_NN.size * 4 / codec.bind(TWO_NN).nbytes
    assert ratio >= least
    assert ratio == pytest.approx(codec.ratio, rel=0.02)


@every_codec
def test_a_payload_may_lie_anywhere_and_be_read_only(name: str) -> None:
    """As it does behind a message's header."""
    coder = as_codec(name).bind(SMALL)
    expected = trip(coder, update_of(SMALL))
    message = np.frombuffer(b"xyz" + expected.payload.tobytes(), np.uint8)
    out = SMALL.allocate()
    coder.decode(message[3:], out)
    np.testing.assert_array_equal(out, expected.decoded)


def test_two_coders_of_int8_share_no_memory() -> None:
    codec = as_codec("int8")
    first, second = codec.bind(TWO_NN), codec.bind(TWO_NN)
    payload = first.encode(update_of(TWO_NN, 1), 1)
    before = payload.copy()
    second.encode(update_of(TWO_NN, 2), 2)
    np.testing.assert_array_equal(payload, before)
