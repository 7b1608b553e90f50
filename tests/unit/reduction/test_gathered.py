"""A rule that looks at the vectors of all ranks makes one of them, the same on each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.reduction.conftest import meshes, together
from tos_notebook.combiners import Median
from tos_notebook.errors import LocalProtocolError, PeerLost
from tos_notebook.reduction.gathered import GatheringReducer
from tos_notebook.reduction.reducer import Reducer
from tos_notebook.reduction.schedules import direct, ring

MEDIAN = Median().aggregate


@settings(max_examples=25, deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.0, 1e-30, 1.0, 7.0]), min_size=1, max_size=4).filter(any),
    size=st.sampled_from([1, 2, 3, 50, 70_000, 300_000]),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 99),
)
def test_all_ranks_hold_the_median_of_those_with_rows(
    weights: list[float], size: int, dtype: str, seed: int
) -> None:
    n, random = len(weights), np.random.default_rng(seed)
    given_ = random.normal(size=(n, size)).astype(dtype)
    given_[[weight == 1e-30 for weight in weights]] = 0
    given_[[weight == 0 for weight in weights]] = np.nan
    held = given_.copy()

    def reduce(mesh: Any, rank: int) -> float:
        reducer = GatheringReducer(mesh, direct(n), MEDIAN)
        return reducer.reduce(held[rank], weights[rank]).weight

    with meshes(n) as formed:
        ended = together([lambda m=m, r=r: reduce(m, r) for r, m in enumerate(formed)])  # type: ignore[misc]
    assert len(set(ended)) == 1
    assert ended[0] == pytest.approx(math.fsum(weights))
    voices = given_[[weight >= 1 for weight in weights]]
    expected = np.median(voices, axis=0) if len(voices) else np.zeros(size)
    for each in held:
        np.testing.assert_allclose(each, expected, rtol=1e-6)
        assert each.tobytes() == held[0].tobytes()


def test_only_a_direct_schedule_brings_the_vectors_themselves() -> None:
    with meshes(2) as formed, pytest.raises(LocalProtocolError, match="direct schedule, got ring"):
        GatheringReducer(formed[0], ring(2), MEDIAN)


def test_a_rank_that_reduces_another_vector_is_lost() -> None:
    kinds = [lambda m: GatheringReducer(m, direct(2), MEDIAN), lambda m: Reducer(m, direct(2))]
    with meshes(2) as formed:
        calls = [
            lambda m=m, k=k, s=s: k(m).reduce(np.ones(s), 1.0)  # type: ignore[misc]
            for m, k, s in zip(formed, kinds, (10, 12), strict=True)
        ]
        assert any(isinstance(end, PeerLost) for end in together(calls))
