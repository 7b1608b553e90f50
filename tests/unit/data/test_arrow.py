"""Arrow batches as Spark sends them, without a Spark."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tos_notebook.blocks.block import ColumnSpec, content_order
from tos_notebook.blocks.skips import SkipCounter, Skipped
from tos_notebook.data.arrow import ArrowDecoder
from tos_notebook.data.arrow_rows import ArrowColumn
from tos_notebook.errors import DataError

FLOATS = pa.list_(pa.float32())


class Accumulator:
    """Like Spark's."""

    def __init__(self) -> None:
        self.value: dict[Any, Any] = {}

    def add(self, found: Any) -> None:
        self.value |= found


def column(
    dtype: str,
    shape: tuple[int, ...] = (),
    lengths: tuple[int, ...] | None = None,
    classes: int | None = None,
    name: str = "x",
    narrow: str | None = None,
    varies: bool = False,
) -> ArrowColumn:
    lengths = shape if lengths is None else lengths
    return ArrowColumn(ColumnSpec(dtype, shape, name), lengths, classes, narrow, varies)


def decoded(
    columns: list[tuple[Any, ArrowColumn]], skips: SkipCounter | None = None, ordered: bool = True
) -> list[Any]:
    batch = pa.record_batch([array for array, _ in columns], [c.spec.name for _, c in columns])
    decoder = ArrowDecoder(batch.schema, tuple(c for _, c in columns), skips, ordered)
    messages = [batch.slice(0, 2), batch.slice(2)]
    return list(decoder(3, [m.serialize().to_pybytes() for m in messages]))


@pytest.mark.parametrize(
    ("array", "wanted", "rows"),
    [
        (pa.array([1, 2, 3], pa.int16()), column("int16"), [1, 2, 3]),
        (pa.array([True, False, True]), column("bool"), [True, False, True]),
        (pa.array([1.5, 2.0, 3.0]), column("float32"), [1.5, 2.0, 3.0]),
        (pa.array([[1, 2]] * 3, FLOATS), column("float32", (2,)), [[1, 2]] * 3),
        (pa.array([[1, 2]] * 3, FLOATS), column("float32", (2, 1), (2,)), [[[1], [2]]] * 3),
        (
            pa.array([[[1, 2], [3, 4]]] * 3, pa.list_(pa.list_(pa.int8()))),
            column("int8", (2, 2)),
            [[[1, 2], [3, 4]]] * 3,
        ),
        (pa.array([b"\x00\xff"] * 3), column("uint8", (1, 2), (2,)), [[[0, 255]]] * 3),
        (
            pa.array([b"\x00\xff"] * 3, pa.large_binary()),
            column("uint8", (2,), (2,)),
            [[0, 255]] * 3,
        ),
    ],
    ids=["int16", "bool", "float64 to float32", "array", "reshaped", "nested", "bytes", "large"],
)
def test_rows_become_columns_of_their_own_dtype(array: Any, wanted: ArrowColumn, rows: Any) -> None:
    blocks = [block for (block,) in decoded([(array, wanted)])]
    assert [len(block) for block in blocks] == [2, 1]
    assert all(block.dtype == wanted.spec.dtype for block in blocks)
    np.testing.assert_array_equal(np.concatenate(blocks), rows)


BAD = [
    (pa.array([1, 2, None], pa.int16()), column("int16"), "null"),
    (pa.array([1.0, 2.0, float("nan")]), column("float64"), "nan"),
    (pa.array([1.0, 2.0, float("inf")]), column("float64"), "inf"),
    (pa.array([1.0, 2.0, 1e300]), column("float32"), "inf"),
    (pa.array([[1, 2], [3, 4], None], FLOATS), column("float32", (2,)), "null"),
    (pa.array([[1, 2], [3, 4], [5, None]], FLOATS), column("float32", (2,)), "null"),
    (pa.array([[1, 2], [3, 4], [5]], FLOATS), column("float32", (2,)), "1 values in place of 2"),
    (pa.array([[1, 2], [3, 4], [5, np.nan]], FLOATS), column("float32", (2,)), "nan"),
    (pa.array([b"ab", b"cd", b""]), column("uint8", (2,)), "0 values in place of 2"),
    (
        pa.array([[[1], [2]], [[3], [4]], [[5], []]], pa.list_(FLOATS)),
        column("float32", (2, 1)),
        "0 values in place of 1",
    ),
    (pa.array([0, 9, 10]), column("int64", classes=10), "label 10 of 10 classes"),
    (pa.array([0, 9, -1]), column("int64", classes=10), "label -1 of 10 classes"),
    (pa.array([0, 9, 2**32 + 3]), column("int64", narrow="int32"), "4294967299"),
]


@pytest.mark.parametrize(("array", "wanted", "reason"), BAD)
def test_the_first_bad_row_is_named_with_column_and_partition(
    array: Any, wanted: ArrowColumn, reason: str
) -> None:
    with pytest.raises(DataError, match=f"^Column 'x', partition 3, row 2: .* got {reason}\\."):
        decoded([(array, wanted)])


@pytest.mark.parametrize(
    ("last", "varies", "advice"),
    [
        ([5], False, 'leave such rows out: tos.columns(..., on_bad="skip").'),
        ([5], True, """longest: tos.columns(..., pad={'x': "longest"}). Or give a"""),
        ([5, None], True, 'leave such rows out: tos.columns(..., on_bad="skip").'),
    ],
)
def test_a_row_of_another_length_is_to_be_brought_to_theirs_where_lengths_vary(
    last: Any, varies: bool, advice: str
) -> None:
    array = pa.array([[1, 2], [3, 4], last], FLOATS)
    with pytest.raises(DataError, match=re.escape(advice)):
        decoded([(array, column("float32", (2,), varies=varies))])


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(("array", "wanted", "reason"), BAD)
def test_bad_rows_are_left_out_and_counted(array: Any, wanted: ArrowColumn, reason: str) -> None:
    numbers = column("int64", name="n")
    skips = SkipCounter(Accumulator())
    many = pa.concat_arrays([array, array, array.slice(0, 2)])
    blocks = decoded([(pa.array(range(8)), numbers), (many, wanted)], skips)
    assert np.concatenate([numbers for numbers, _ in blocks]).tolist() == [0, 1, 3, 4, 6, 7]
    assert skips.found == (Skipped(3, "x", 2, 2, reason),)


def test_a_row_counts_for_its_first_bad_column_only() -> None:
    skips = SkipCounter(Accumulator())
    nulls = pa.array([1, None, None])
    blocks = decoded([(nulls, column("int64")), (nulls, column("int64", name="y"))], skips)
    assert [len(x) for x, _ in blocks] == [1]
    assert skips.found == (Skipped(3, "x", 2, 1, "null"),)


def test_rows_in_no_certain_order_are_put_in_one() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (200, 2)).astype(np.float32)
    y = rng.integers(0, 3, 200)
    other = rng.permutation(200)
    layouts = []
    for order in (np.arange(200), other):
        arrays = pa.array(list(x[order]), FLOATS), pa.array(y[order])
        wanted = column("float32", (2,)), column("int64", name="y")
        layouts.append(decoded(list(zip(arrays, wanted, strict=True)), ordered=False))
    ((x0, y0),), ((x1, y1),) = layouts
    np.testing.assert_array_equal(x0, x1)
    np.testing.assert_array_equal(y0, y1)
    whole = np.column_stack([x, y])
    again = np.column_stack([x0, y0])
    assert sorted(map(tuple, whole)) == sorted(map(tuple, again))


def test_no_rows_have_an_order_too() -> None:
    assert decoded([(pa.array([], pa.int64()), column("int64"))], ordered=False) == []
    assert content_order([np.zeros((0, 2))]).tolist() == []


DECODING = """
import pickle, sys
decoder, message = pickle.load(sys.stdin.buffer)
(rows, label), = decoder(0, [message])
print(rows.tolist(), label.tolist(), "pandas" in sys.modules)
"""


def test_good_rows_of_numbers_do_not_make_a_worker_import_pandas() -> None:
    """That takes it longer than many a run."""
    columns = column("float32", (2,)), column("int64", classes=3, name="y")
    batch = pa.record_batch([pa.array([[1, 2], [3, 4]], FLOATS), pa.array([0, 2])], ["x", "y"])
    decoder = ArrowDecoder(batch.schema, columns, None, ordered=True)
    done = subprocess.run(
        [sys.executable, "-c", DECODING],
        input=pickle.dumps((decoder, batch.serialize().to_pybytes())),
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == b"[[1.0, 2.0], [3.0, 4.0]] [0, 2] False\n", done.stderr.decode()
