"""Arrow arrays become series of pandas, and come back as they were."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tos_notebook.inference.series import as_array, as_series


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, 3], pa.int32()),
        ([1.5, None], pa.float64()),
        ([True, False], pa.bool_()),
        ([b"ab", None], pa.binary()),
        ([[1.0, 2.0], None, []], pa.list_(pa.float32())),
        ([[[1, 2], [3]], None], pa.list_(pa.list_(pa.int64()))),
        (
            [{"a": 1, "b": [1.0]}, {"a": 2, "b": []}],
            pa.struct({"a": pa.int32(), "b": pa.list_(pa.float64())}),
        ),
    ],
)
def test_values_and_nulls_survive(values: list[object], kind: pa.DataType) -> None:
    array = pa.array(values, kind)
    again = as_array(as_series(array), kind)
    assert again.type == kind
    assert again.to_pylist() == values
