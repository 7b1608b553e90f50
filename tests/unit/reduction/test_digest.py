"""Vectors that differ have other digests."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.reduction.digest import digest


@given(
    size=st.integers(2, 5000),
    flips=st.sets(st.tuples(st.integers(0, 4999), st.integers(0, 31)), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
)
def test_a_few_bits_make_another_digest(size: int, flips: set[tuple[int, int]], seed: int) -> None:
    vector = np.random.default_rng(seed).standard_normal(size).astype("float32")
    other = vector.copy()
    for index, bit in {(index % size, bit) for index, bit in flips}:
        other.view("uint32")[index] ^= np.uint32(1 << bit)
    assert digest(vector) == digest(vector.copy())
    assert (digest(vector) == digest(other)) == (vector.tobytes() == other.tobytes())


def test_it_has_32_bits_and_takes_any_shape() -> None:
    found = [digest(np.full((size, 2), 1.5)) for size in range(1000)]
    assert len(set(found)) == 1000
    assert max(found).bit_length() in range(28, 33)
