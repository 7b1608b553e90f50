from __future__ import annotations

import gzip
import re
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.unit.data.idx_files import CODES, idx_bytes
from tos_notebook.blocks.idx import parse_idx
from tos_notebook.errors import DataError

GOOD = idx_bytes(np.arange(6, dtype=np.uint8).reshape(2, 3))


@given(
    st.sampled_from(sorted(CODES)).flatmap(
        lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(max_dims=4, max_side=5))
    ),
    st.booleans(),
)
def test_every_dtype_comes_back_in_native_order_plain_or_gzipped(
    values: npt.NDArray[Any], zipped: bool
) -> None:
    data = idx_bytes(values)
    parsed = parse_idx(gzip.compress(data) if zipped else data, "file")
    assert parsed.dtype == values.dtype
    assert parsed.dtype.isnative
    np.testing.assert_array_equal(parsed, values)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "file: expected an IDX file, got an empty one"),
        (GOOD[:-1], "(2, 3) of uint8, 6 bytes, but 5 follow; the file is truncated"),
        (GOOD + b"!", "(2, 3) of uint8, 6 bytes, but 7 follow; the file is too long"),
        (GOOD[:9], "the header of 2 dimensions takes 12 bytes, but the file has 9"),
        (b"PK\x03\x04" + GOOD, "expected the magic number of an IDX file"),
        (struct.pack(">BBBBI", 0, 0, 7, 1, 0), "got 0x00000701"),
        (struct.pack(">BBBB", 0, 0, 8, 0), "got 0x00000800"),
        (b"\x00", "got 0x00."),
        (gzip.compress(GOOD, mtime=0)[:-9], "the gzip stream is damaged"),
        (gzip.compress(b"", mtime=0), "expected the magic number"),
    ],
)
def test_a_bad_file_is_named_and_told_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=r"^file: ") as caught:
        parse_idx(data, "file")
    assert re.search(re.escape(message), str(caught.value))


def test_uint8_is_not_copied() -> None:
    assert np.shares_memory(parse_idx(GOOD, "file"), np.frombuffer(GOOD, np.uint8))
