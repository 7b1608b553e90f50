"""The running mean of slots against its closed form."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.optimizer_state import SlotMean

LAYOUT = Layout([ParameterSpec("m", (3,), "float32"), ParameterSpec("v", (2, 2), "float64")])
NUMBERS = st.floats(0, 2**100, width=32)
VECTORS = st.lists(NUMBERS, min_size=7, max_size=7)


def packed(values: list[float]) -> npt.NDArray[np.uint8]:
    m, v = np.array(values[:3], np.float32), np.array(values[3:], np.float64).reshape(2, 2)
    return LAYOUT.pack([m, v])


def flat(buffer: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    return np.concatenate([t.ravel() for t in LAYOUT.tensors(buffer).values()], dtype=np.float64)


@given(st.lists(st.tuples(VECTORS, st.integers(1, 20)), min_size=1, max_size=6))
def test_each_vector_pulls_the_mean_by_its_share_and_becomes_it(
    sent: list[tuple[list[float], int]],
) -> None:
    mean, expected, largest = SlotMean(LAYOUT), np.zeros(0), 0.0
    for number, (values, workers) in enumerate(sent):
        vector = packed(values)
        own = flat(vector)
        largest = max(largest, own.max())
        expected = own if number == 0 else expected + (own - expected) / workers
        mean.blend(vector, workers)
        np.testing.assert_allclose(flat(vector), expected, rtol=1e-5, atol=1e-5 * largest)
        assert (flat(vector) >= 0).all()  # Adam takes the root of v
        held = LAYOUT.allocate()
        assert mean.read(held)
        np.testing.assert_array_equal(held, vector)


@given(VECTORS, VECTORS)
def test_a_single_workers_slots_stay_as_they_are_to_the_bit(
    before: list[float], values: list[float]
) -> None:
    mean = SlotMean(LAYOUT)
    mean.blend(packed(before), 1)
    vector = packed(values)
    mean.blend(vector, 1)
    np.testing.assert_array_equal(vector, packed(values))


def test_there_is_nothing_to_read_before_the_first_vector() -> None:
    vector = packed([1.0] * 7)
    assert not SlotMean(LAYOUT).read(vector)
    np.testing.assert_array_equal(vector, packed([1.0] * 7))


def test_what_a_worker_gets_is_its_own_to_change() -> None:
    mean = SlotMean(LAYOUT)
    vector = packed([1.0] * 7)
    mean.blend(vector, 2)
    vector[:] = 0
    held = LAYOUT.allocate()
    mean.read(held)
    np.testing.assert_array_equal(held, packed([1.0] * 7))


def test_threads_never_see_half_a_mean() -> None:
    """All sent elements are alike, so all of every mean are."""
    mean, torn = SlotMean(LAYOUT), []

    def work(value: float) -> None:
        for _ in range(200):
            vector = packed([value] * 7)
            mean.blend(vector, 2)
            if np.ptp(flat(vector)) > 1e-5:
                torn.append(flat(vector))

    threads = [threading.Thread(target=work, args=(value,)) for value in (0.0, 1.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torn == []
