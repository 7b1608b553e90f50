"""Shards' parts are the whole, in order, cut where stripes end, and about equal."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.long import examples
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.shards.slices import slices, stripe_length
from tos_notebook.strategies.ps.stripes import cut

shapes = st.lists(st.integers(0, 40), max_size=2).map(tuple)
specs = st.lists(
    st.tuples(shapes, st.sampled_from(["float32", "float64", "int64"]), st.booleans()),
    min_size=1,
    max_size=6,
)


def _layout(found: list[tuple[tuple[int, ...], str, bool]]) -> Layout:
    return Layout(
        ParameterSpec(str(number), shape, dtype, trained)
        for number, (shape, dtype, trained) in enumerate(found)
    )


@examples(1)
@given(specs, st.integers(1, 5), st.integers(1, 4096))
def test_parts_are_the_whole_cut_where_stripes_end(
    found: list[tuple[tuple[int, ...], str, bool]], count: int, most: int
) -> None:
    layout = _layout(found)
    length = stripe_length(layout, most)
    whole = layout.allocate()
    whole[:] = np.arange(len(whole)) % 251
    stripes = list(cut(layout, whole, length))
    parts = slices(layout, count, length)
    assert 1 <= len(parts) <= count
    assert len(parts) == min(count, len(stripes))
    assert sum(part.stripes for part in parts) == len(stripes)
    mine = [
        stripe.center
        for part in parts
        for stripe in cut(part.layout, whole[part.start : part.stop], length)
    ]
    for one, other in zip(mine, stripes, strict=True):
        assert one.dtype == other.center.dtype
        assert one.tobytes() == other.center.tobytes()


def test_parts_of_a_large_layout_are_about_equal() -> None:
    layout = Layout([ParameterSpec("w", (1000, 1000), "float32"), ParameterSpec("b", (9,), "f4")])
    parts = slices(layout, 4, stripe_length(layout, 1 << 20))
    lengths = [part.stop - part.start for part in parts]
    assert max(lengths) < 1.1 * min(lengths)
