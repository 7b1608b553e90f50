"""Layouts: every parameter has its own place, and comes back as it went in."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.common.arrays import ALIGNMENT, aligned_empty, is_finite
from tos_notebook.errors import ShapeMismatch, UnsupportedProgram
from tos_notebook.layout import Layout, ParameterSpec

DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64")

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
layouts = st.lists(st.tuples(shapes, st.sampled_from(DTYPES)), min_size=1, max_size=8).map(
    lambda parameters: Layout(ParameterSpec(f"p{i}", *p) for i, p in enumerate(parameters))
)


def numbered(layout: Layout) -> list[np.ndarray[Any, Any]]:
    """Values for each parameter, no two elements of the layout alike as far as dtypes allow."""
    count, values = 1, []
    for spec in layout.specs:
        values.append((np.arange(spec.size) + count).reshape(spec.shape).astype(spec.dtype))
        count += spec.size
    return values


@given(layouts)
def test_pack_and_tensors_are_each_others_inverse(layout: Layout) -> None:
    values = numbered(layout)
    tensors = layout.tensors(layout.pack(values))
    assert list(tensors) == [spec.name for spec in layout.specs]
    for spec, value, tensor in zip(layout.specs, values, tensors.values(), strict=True):
        assert (tensor.shape, tensor.dtype) == (spec.shape, np.dtype(spec.dtype))
        np.testing.assert_array_equal(tensor, value)


@given(layouts)
def test_a_mapping_packs_by_name_in_any_order(layout: Layout) -> None:
    values = numbered(layout)
    names = [spec.name for spec in layout.specs]
    mapping = dict(reversed(list(zip(names, values, strict=True))))
    np.testing.assert_array_equal(layout.pack(mapping), layout.pack(values))


@given(layouts)
def test_vectors_and_tensors_are_views_of_the_same_elements(layout: Layout) -> None:
    buffer = layout.allocate()
    for vector in layout.vectors(buffer):
        vector += 1
    tensors = layout.tensors(buffer)
    assert all((tensor == 1).all() for tensor in tensors.values())
    assert sum(tensor.size for tensor in tensors.values()) == layout.size


@given(layouts)
def test_segments_are_aligned_apart_and_one_for_each_dtype(layout: Layout) -> None:
    end = 0
    for segment in layout.segments:
        assert segment.offset % ALIGNMENT == 0
        assert segment.offset >= end
        end = segment.offset + segment.nbytes
    assert layout.nbytes == end
    assert len({segment.dtype for segment in layout.segments}) == len(layout.segments)
    # numpy gives an empty array an address of its own choosing
    assert layout.nbytes == 0 or layout.allocate().ctypes.data % ALIGNMENT == 0
    owned = sorted(index for segment in layout.segments for index in segment.indices)
    assert owned == list(range(len(layout)))


@given(
    st.sampled_from(["float16", "float32", "float64"]),
    st.integers(1, 100_000),
    st.sampled_from([np.nan, np.inf, -np.inf, None]),
    st.floats(0, 1, exclude_max=True),
)
def test_one_bad_value_anywhere_makes_an_array_non_finite(
    dtype: str, size: int, bad: float | None, where: float
) -> None:
    array = np.full(size, np.finfo(dtype).max, dtype)
    if bad is not None:
        array[int(where * size)] = bad
    assert is_finite(array) == (bad is None)


def test_integers_and_empty_arrays_are_finite() -> None:
    assert is_finite(np.arange(6).reshape(2, 3))
    assert is_finite(np.empty((0, 3), np.float32))


@given(layouts)
def test_every_parameter_is_aligned(layout: Layout) -> None:
    """So that TensorFlow can take its slice of a segment without a copy."""
    tensors = layout.tensors(layout.allocate()).values()
    # numpy gives an empty array an address of its own choosing
    assert all(t.ctypes.data % ALIGNMENT == 0 for t in tensors if t.size)


@given(layouts)
def test_a_layout_survives_json(layout: Layout) -> None:
    restored = Layout.from_json(json.loads(json.dumps(layout.to_json())))
    assert restored == layout
    assert hash(restored) == hash(layout)
    assert restored.segments == layout.segments


@given(st.integers(1, 500))
def test_aligned_empty_is_aligned_and_of_the_length_asked_for(nbytes: int) -> None:
    buffer = aligned_empty(nbytes)
    assert buffer.shape == (nbytes,)
    assert buffer.ctypes.data % ALIGNMENT == 0


def test_two_spellings_of_a_dtype_share_a_segment() -> None:
    layout = Layout([ParameterSpec("a", (2,), "float32"), ParameterSpec("b", (3,), "<f4")])
    assert [segment.indices for segment in layout.segments] == [(0, 1)]


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([], "at least one parameter, got none"),
        ([ParameterSpec("a", (), "int8"), ParameterSpec("a", (), "int8")], "Two .* named 'a'"),
        ([ParameterSpec("a", (), "complex64")], "'a' has dtype complex64"),
        ([ParameterSpec("a", (), "bool")], "'a' has dtype bool"),
        ([ParameterSpec("a", (), "not a dtype")], "'a' has dtype not a dtype"),
    ],
)
def test_a_program_without_a_layout_is_refused(specs: list[ParameterSpec], message: str) -> None:
    with pytest.raises(UnsupportedProgram, match=message):
        Layout(specs)


LAYOUT = Layout([ParameterSpec("W", (2, 2), "float32"), ParameterSpec("b", (2,), "float32")])
W, B = np.zeros((2, 2), np.float32), np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([W], "Expected 2 parameters, got 1"),
        ([W, B, B], "Expected 2 parameters, got 3"),
        ([W.T.reshape(4), B], r"'W': expected shape \(2, 2\) of float32, got shape \(4,\)"),
        ([W, B.astype(np.float64)], r"'b': expected .* got shape \(2,\) of float64"),
        ({"W": W}, r"missing: \['b'\]"),
        ({"W": W, "b": B, "c": B}, r"unknown: \['c'\]"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: Any, message: str) -> None:
    with pytest.raises(ShapeMismatch, match=message):
        LAYOUT.pack(values)


def test_layouts_are_equal_when_their_parameters_are() -> None:
    assert Layout(LAYOUT.specs) == LAYOUT
    assert Layout(LAYOUT.specs[::-1]) != LAYOUT
    assert repr(LAYOUT) == "Layout(2 parameters, 6 elements, 72 bytes)"


def test_pack_writes_into_a_given_buffer() -> None:
    buffer = LAYOUT.allocate()
    assert LAYOUT.pack([W + 1, B + 1], out=buffer) is buffer
    assert LAYOUT.tensors(buffer)["W"].min() == 1


def _counted(layout: Layout, first: float) -> Any:
    buffer = layout.allocate()
    for number, tensor in enumerate(layout.tensors(buffer).values()):
        tensor[...] = first + number
    return buffer


def test_a_layout_adopts_the_values_of_the_model_and_keeps_what_an_optimizer_has() -> None:
    """Names may differ: their order is the model's. An optimizer's own values have no other."""
    scale = ParameterSpec("scale", (), "float32", False, False)
    model = [ParameterSpec("w", (2,), "float32"), ParameterSpec("b", (), "float64")]
    renamed = [ParameterSpec("w_1", (2,), "float32"), ParameterSpec("b_1", (), "float64")]
    of_model, larger = Layout(model), Layout([scale, *renamed])
    buffer = _counted(larger, 10.0)
    larger.adopt(buffer, of_model, _counted(of_model, 1.0))
    found = {name: tensor.tolist() for name, tensor in larger.tensors(buffer).items()}
    assert found == {"scale": 10.0, "w_1": [1.0, 1.0], "b_1": 2.0}
    back = _counted(of_model, 0.0)
    of_model.adopt(back, larger, buffer)
    assert [tensor.tolist() for tensor in of_model.tensors(back).values()] == [[1.0, 1.0], 2.0]
    again = _counted(larger, 20.0)
    larger.adopt(again, larger, buffer)
    assert again.tobytes() == buffer.tobytes()


def test_a_layout_does_not_adopt_the_values_of_another_model() -> None:
    one, two = (
        Layout([ParameterSpec("w", (), "float32")]),
        Layout([ParameterSpec("w", (), "float32"), ParameterSpec("b", (), "float32")]),
    )
    with pytest.raises(ShapeMismatch, match="Expected 1 parameters, got 2"):
        one.adopt(one.allocate(), two, two.allocate())
