"""A checkpoint file is read back as it was written, or refused."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from tos_notebook.common.arrays import Array
from tos_notebook.errors import CheckpointError
from tos_notebook.persist.sealed import VERSION, decode, encode, read_summary, write

DTYPES = ["<f4", "<f8", "<f2", "<i8", "<u4", "|u1", "|b1", ">f8"]

plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
arrays = st.lists(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, min_side=0))
    ),
    max_size=4,
)

FILE = encode(
    {"state": "running", "loss": 0.25},
    {"ledger": [[0, 1, 2]], "text": "ä"},
    [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7), np.zeros((0, 4))],
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), plain), plain, arrays)
def test_what_was_written_is_read_back_to_the_bit(
    summary: dict[str, Any], value: Any, given: list[Array]
) -> None:
    found = decode(encode(summary, value, given), "file")
    assert (found.summary, found.value) == (summary, value)
    assert [a.shape for a in found.arrays] == [a.shape for a in given]
    for mine, own in zip(given, found.arrays, strict=True):
        assert own.dtype == mine.dtype.newbyteorder("<")
        assert own.tobytes() == mine.astype(own.dtype).tobytes()


def test_a_file_is_written_as_it_is_encoded(tmp_path: Path) -> None:
    given = [np.arange(9.0)[::2], np.ones((3, 2), ">i4")]
    write(tmp_path / "file", {"a": 1}, [1, 2], given)
    assert (tmp_path / "file").read_bytes() == encode({"a": 1}, [1, 2], given)


def test_a_file_cut_off_at_any_byte_is_refused() -> None:
    for length in range(len(FILE)):
        with pytest.raises(CheckpointError, match="file was cut off: expected"):
            decode(FILE[:length], "file")


def test_a_file_with_any_bit_flipped_is_refused() -> None:
    for bit in range(8 * len(FILE)):
        damaged = bytearray(FILE)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CheckpointError, match="file"):
            decode(bytes(damaged), "file")


def test_a_file_with_something_behind_its_end_is_refused() -> None:
    with pytest.raises(CheckpointError, match=f"expected {len(FILE)} bytes, got {len(FILE) + 1}"):
        decode(FILE + b"\0", "file")


LATER = VERSION + 1


def test_a_file_of_a_later_format_says_who_reads_it() -> None:
    with pytest.raises(CheckpointError, match=f"expected format version {VERSION}, got {LATER}"):
        decode(FILE[:8] + struct.pack("<I", LATER) + FILE[12:], "file")


def test_a_summary_is_read_from_a_files_beginning_and_checked() -> None:
    need = read_summary(FILE[:40], "file")
    assert isinstance(need, int)
    assert read_summary(FILE[:need], "file") == {"state": "running", "loss": 0.25}
    with pytest.raises(CheckpointError, match="its summary is not as it was written"):
        read_summary(FILE[: need - 1] + bytes([FILE[need - 1] ^ 1]), "file")


@pytest.mark.parametrize(
    "state",
    [
        [], 3, {}, {"arrays": [], "value": 0, "more": 0} | {"arrays": 5},
        {"arrays": [["<f4", [-1]]], "value": 0}, {"arrays": [["<f4", [1 << 70]]], "value": 0},
        {"arrays": [["|O", [0]]], "value": 0}, {"arrays": [["<f4", [0, 1 << 70]]], "value": 0},
        {"arrays": [["<f4", ["a"]]], "value": 0}, {"arrays": [["<f4"]], "value": 0},
        {"arrays": [["V8", []]], "value": 0}, {"arrays": [["(,)f4", []]], "value": 0},
        {"arrays": [[{}, []]], "value": 0}, {"arrays": [["f4,f4", []]], "value": 0},
    ],
    ids=str,
)  # fmt: skip
def test_a_sealed_file_with_nonsense_in_it_is_refused_before_anything_is_allocated(
    state: Any,
) -> None:
    with pytest.raises(CheckpointError, match="sealed, but not as this release writes it"):
        decode(sealed(json.dumps(state).encode()), "file")


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(CheckpointError, match="sealed, but not"):
        decode(sealed(b"[" * 200_000), "file")


def sealed(state: bytes) -> bytes:
    """Return a file of an empty summary, a state and no body, with right seals."""
    head = struct.pack("<8sIIQQ", b"\x89TOS-CP\n", VERSION, 2, len(state), 0) + b"{}"
    head += hashlib.sha256(head).digest() + state
    return head + hashlib.sha256(head).digest()
