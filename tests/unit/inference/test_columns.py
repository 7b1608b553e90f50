"""Outputs of a model as Arrow arrays: what Spark reads is what the model returned."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tos_notebook.archive.spec import Port
from tos_notebook.errors import UnsupportedProgram
from tos_notebook.inference.dataframe import WIDENED, Kind, as_arrow, kind_of

NUMPY = sorted(set(WIDENED) - {"bfloat16"})


@settings(deadline=None)
@given(st.data(), st.sampled_from(NUMPY), array_shapes(min_dims=1, max_dims=4, min_side=0))
def test_every_value_keeps_its_place(data: Any, dtype: str, shape: tuple[int, ...]) -> None:
    values = data.draw(arrays(dtype, shape))
    kind = kind_of(Port("o", "o", dtype, shape[1:]))
    found = as_arrow(values, kind)
    assert found.type == kind.arrow
    flat = values.reshape(len(values)) if shape[1:] == (1,) else values
    expected = flat.astype(kind.dtype).tolist()
    assert repr(found.to_pylist()) == repr(expected)


def test_one_number_for_each_row_is_a_number() -> None:
    assert kind_of(Port("o", "o", "float32", (1,))) == Kind("float32", 0)
    assert kind_of(Port("o", "o", "float32", (1, 1))) == Kind("float32", 2)
    assert kind_of(Port("o", "o", "uint8", ())).spark.simpleString() == "smallint"


@pytest.mark.parametrize(("dtype", "shape"), [("string", ()), ("float32", None)])
def test_what_no_column_can_hold_is_refused(dtype: str, shape: Any) -> None:
    with pytest.raises(UnsupportedProgram, match="'scores'"):
        kind_of(Port("o", "scores", dtype, shape))
