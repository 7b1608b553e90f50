from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.widgets.series import FREE, SPACING, Series

LIMIT = 16
value = st.floats(-1e6, 1e6)
weight = st.integers(1, 1000)


def filled(values: list[tuple[float, int]], spacing: float = 2 * SPACING) -> Series:
    series = Series(LIMIT)
    for n, (height, samples) in enumerate(values):
        series.add(n * spacing, n, n / 10, height, samples)
    series.close_point()
    return series


@given(st.lists(st.tuples(value, weight), min_size=1, max_size=300))
def test_it_stays_within_its_limit_and_in_order(values: list[tuple[float, int]]) -> None:
    series = filled(values)
    assert 1 <= len(series) <= LIMIT
    for axis in series.points()[:3]:
        assert (np.diff(axis) > 0).all()


@given(st.lists(st.tuples(value, weight), min_size=1, max_size=300))
def test_the_weighted_mean_is_that_of_all_values(values: list[tuple[float, int]]) -> None:
    heights, weights = zip(*values, strict=True)
    series = filled(values)
    kept = series._points[:, : len(series)]
    assert kept[4].sum() == sum(weights)
    mean = np.average(heights, weights=weights)
    slack = 1e-9 * (1 + max(map(abs, heights)))
    assert np.average(kept[3], weights=kept[4]) == pytest.approx(mean, abs=slack)


@given(st.lists(st.tuples(value, weight), min_size=1, max_size=300))
def test_points_lie_between_the_values_they_are_made_of(values: list[tuple[float, int]]) -> None:
    heights = [height for height, _ in values]
    points = filled(values).points()[3]
    slack = 1e-9 * max(map(abs, heights))
    assert min(heights) - slack <= points.min()
    assert points.max() <= max(heights) + slack


@given(st.lists(st.sampled_from([1.0, 3.0, math.nan, math.inf, -math.inf]), max_size=200))
def test_what_is_not_finite_does_not_count_beside_what_is(heights: list[float]) -> None:
    points = filled([(height, 1) for height in heights]).points()[3]
    # Alone it stays what it is: a gap in the curve.
    known = points[np.isfinite(points)]
    assert ((known >= 1) & (known <= 3)).all()
    if len(heights) > 8 * LIMIT and all(h in (1.0, 3.0) for h in heights):
        assert len(known) == len(points)


def test_few_values_are_kept_as_they_are() -> None:
    series = filled([(1.0, 10), (2.0, 10)])
    assert series.points()[3].tolist() == [1.0, 2.0]
    assert series.generation == 0


def test_values_that_come_fast_share_a_point() -> None:
    series = Series()
    for n in range(FREE + 1000):
        series.add(n * SPACING / 10, n, n, 1.0, 1)
    assert FREE + 90 <= len(series) <= FREE + 110


def test_many_values_merge_all_points_anew_and_say_so() -> None:
    series = filled([(1.0, 1)] * 20)
    assert series.generation == 1
    assert len(series) == LIMIT // 2 + 2


def test_merging_gets_rarer_as_the_series_grows() -> None:
    series = filled([(1.0, 1)] * 1000)
    assert series.generation == math.ceil(math.log2(1000 / LIMIT))


def test_it_packs_rows_of_little_endian_floats() -> None:
    series = filled([(1.5, 1), (2.5, 1), (3.5, 1)])
    found = np.frombuffer(series.packed(1), "<f4").reshape(4, 2)
    assert found[3].tolist() == [2.5, 3.5]
    assert found[1].tolist() == [1, 2]
