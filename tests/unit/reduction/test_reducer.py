"""The weighted mean over real sockets: right, the same everywhere, and with an end to each wait."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from tests.unit.reduction.conftest import meshes, together
from tests.unit.reduction.test_schedules import ALL
from tos_notebook.common.arrays import Array
from tos_notebook.reduction.reducer import Reducer, Traffic
from tos_notebook.reduction.schedules import direct

SIZES = [0, 1, 5, 1000, 300_001, 1_500_000]
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
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
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
