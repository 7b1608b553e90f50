"""Rows that are nearly all zeros, beside the same as arrays."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tos_notebook.blocks.block import concatenate, content_order
from tos_notebook.blocks.sparse import SparseRows, at_once, dense
from tos_notebook.common.content import content_of


def rows(count: int = 7, width: int = 9, seed: int = 0) -> tuple[SparseRows, np.ndarray]:
    """Return random rows, one of them empty, both ways."""
    random = np.random.default_rng(seed)
    wanted = random.normal(size=(count, width)).astype(np.float32)
    wanted[random.random((count, width)) < 0.7] = 0
    wanted[2] = 0
    numbers, indices = np.nonzero(wanted)
    ends = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=count))])
    values = wanted[numbers, indices]
    return SparseRows(ends, indices.astype(np.int32), values, (width,)), wanted


@pytest.mark.parametrize(
    "index", [slice(0, 3), slice(5, 99), slice(4, 4), np.array([6, 2, 2, 0]), np.zeros(0, np.int64)]
)
def test_rows_are_chosen_as_of_an_array(index: slice | np.ndarray) -> None:
    sparse, wanted = rows()
    assert (len(sparse), sparse.shape, sparse.dtype) == (7, (7, 9), np.float32)
    np.testing.assert_array_equal(dense(sparse[index]), wanted[index])


def test_blocks_are_joined() -> None:
    (first, a), (second, b) = rows(), rows(5, seed=1)
    (joined,) = concatenate([(first,), (second,), (first,)])
    np.testing.assert_array_equal(dense(joined), np.concatenate([a, b, a]))


def test_what_a_buffer_held_before_is_overwritten() -> None:
    sparse, wanted = rows()
    out = np.full((7, 3, 3), 5.0, np.float32)
    assert sparse.dense(out) is out
    np.testing.assert_array_equal(out.reshape(7, 9), wanted)


def test_they_take_the_memory_of_what_is_not_zero() -> None:
    ends = np.arange(1001, dtype=np.int64)
    wide = SparseRows(ends, np.zeros(1000, np.int32), np.ones(1000, np.float32), (1 << 18,))
    assert wide.nbytes < 20_000
    assert len(pickle.dumps(wide)) < 20_000


def test_fewer_wide_rows_than_narrow_ones_are_dense_at_once() -> None:
    sparse, wanted = rows()
    assert at_once([sparse, wanted], 1000) == at_once([wanted], 1000) == 1000
    sparse.row = (1 << 18,)
    assert at_once([wanted, sparse], 1000) == 64
    sparse.row = (1 << 30,)
    assert at_once([sparse], 1000) == 1


def test_their_digest_is_of_what_they_hold() -> None:
    sparse, _ = rows()
    again, _ = rows()
    other, _ = rows()
    other.values[0] += 1
    assert content_of([sparse]) == content_of([again])
    assert content_of([sparse]) != content_of([other])


def test_their_order_by_content_does_not_depend_on_how_they_came() -> None:
    sparse, _ = rows(50)
    other = sparse[np.random.default_rng(1).permutation(50)]
    ordered = [dense(column[content_order([column])]) for column in (sparse, other)]
    np.testing.assert_array_equal(*ordered)
