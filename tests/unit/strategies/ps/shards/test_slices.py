"""Shards' parts are the whole, in order, cut where stripes end, and about equal."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.long import examples
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.shards.slices import Slice, slices, stripe_lengths
from tos_notebook.strategies.ps.stripes import cut

shapes = st.lists(st.integers(0, 40), max_size=2).map(tuple)
specs = st.lists(
    st.tuples(shapes, st.sampled_from(["float32", "float64", "int64"]), st.booleans()),
    min_size=1,
    max_size=6,
)


def _layout(found: list[tuple[tuple[int, ...], str, bool]]) -> Layout:
    return Layout(
        ParameterSpec(str(number), shape, dtype, trained, by_row=_is_table(shape, trained))
        for number, (shape, dtype, trained) in enumerate(found)
    )


def _is_table(shape: tuple[int, ...], trained: bool) -> bool:
    return trained and len(shape) == 2 and bool(np.prod(shape))


@examples(1)
@given(specs, st.integers(1, 5), st.integers(1, 4096))
def test_parts_are_the_whole_cut_where_stripes_end(
    found: list[tuple[tuple[int, ...], str, bool]], count: int, most: int
) -> None:
    layout = _layout(found)
    lengths = stripe_lengths(layout, most)
    whole = layout.allocate()
    whole[:] = np.arange(len(whole)) % 251
    stripes = list(cut(layout, whole, lengths))
    parts = slices(layout, count, lengths)
    assert 1 <= len(parts) <= count
    assert len(parts) == min(count, len(stripes))
    assert sum(part.stripes for part in parts) == len(stripes)
    mine = [
        stripe.center
        for part in parts
        for stripe in cut(part.layout, whole[part.start : part.stop], lengths)
    ]
    for one, other in zip(mine, stripes, strict=True):
        assert one.dtype == other.center.dtype
        assert one.tobytes() == other.center.tobytes()
    arrays = layout.table_arrays(whole)
    for part in parts:
        own = part.layout.table_arrays(whole[part.start : part.stop])
        for found_rows, (table, first, rows) in zip(own, part.tables, strict=True):
            expected = arrays[table][first : first + rows]
            assert found_rows.shape == expected.shape
            assert found_rows.tobytes() == expected.tobytes()


def test_parts_of_a_large_layout_are_about_equal() -> None:
    layout = Layout([ParameterSpec("w", (1000, 1000), "float32"), ParameterSpec("b", (9,), "f4")])
    parts = slices(layout, 4, stripe_lengths(layout, 1 << 20))
    assert _about_equal(parts)


def test_parts_of_a_large_table_are_about_equal_and_tables() -> None:
    """Also with rows of a length that is no power of two."""
    table = ParameterSpec("rows", (100_000, 50), "float32", by_row=True)
    layout = Layout([table, ParameterSpec("w", (300, 300), "float32")])
    parts = slices(layout, 5, stripe_lengths(layout, 1 << 20))
    assert _about_equal(parts)
    ends = [(part.tables[0].first, part.tables[0].rows) for part in parts]
    assert [first for first, _ in ends] == [0, *np.cumsum([rows for _, rows in ends])[:-1]]
    assert sum(rows for _, rows in ends) == 100_000


def _about_equal(parts: list[Slice]) -> bool:
    lengths = [part.stop - part.start for part in parts]
    return max(lengths) < 1.1 * min(lengths)
