"""Values and arrays come out as they went in; anything else is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from tests.support.long import examples
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.strategies.ps.shards import parcel

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
some_arrays = st.lists(
    arrays_of.arrays(
        st.sampled_from(["<f4", "<f8", "<i8", "|u1", "|b1"]),
        arrays_of.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
    ),
    max_size=3,
)


@examples(1)
@given(plain, some_arrays)
def test_what_is_packed_comes_out(value: object, arrays: list[np.ndarray]) -> None:
    found, received = parcel.unpack(parcel.pack(value, arrays))
    assert found == value
    assert [a.dtype for a in received] == [a.dtype for a in arrays]
    assert [a.shape for a in received] == [a.shape for a in arrays]
    assert [a.tobytes() for a in received] == [a.tobytes() for a in arrays]


@examples(1)
@given(st.binary(max_size=60))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="Expected a value and arrays"):
        parcel.unpack(data)


def test_an_array_beyond_the_end_and_one_of_objects_are_refused() -> None:
    packed = bytes(parcel.pack(1, [np.zeros(8)]))
    for spoiled in (packed[:-8], packed.replace(b"<f8", b"|O8"), packed.replace(b"[8]", b"[9]")):
        with pytest.raises(RemoteProtocolError):
            parcel.unpack(spoiled)
