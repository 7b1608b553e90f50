"""A store of rows is a dict of rows, and knows which have changed since they were asked for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.long import examples
from tos_notebook.common.arrays import Array
from tos_notebook.strategies.ps.served.store import Index, RowStore

COLUMNS = 3
IDS = st.lists(st.integers(0, 2**62), min_size=1, max_size=40, unique=True)
WRITES = st.lists(st.lists(st.integers(0, 60), max_size=12, unique=True), max_size=12)


def _rows(ids: Array, salt: int) -> Array:
    return (ids[:, None] * 1000 + salt + np.arange(COLUMNS)).astype(np.float32)


@examples(0.5)
@given(st.lists(IDS, max_size=8))
def test_an_index_gives_numbers_places_in_the_order_in_which_they_come(
    batches: list[list[int]],
) -> None:
    index, known = Index(), dict[int, int]()
    for batch in batches:
        ids = np.array(batch)
        assert index.find(ids).tolist() == [known.get(i, -1) for i in batch]
        new = [i for i in batch if i not in known]
        places = index.add(np.array(new, np.int64))
        known |= dict(zip(new, places.tolist(), strict=True))
    assert sorted(known.values()) == list(range(index.count))


def test_an_index_grows_and_finds_all_that_it_had() -> None:
    index, ids = Index(), np.random.default_rng(0).permutation(50_000).astype(np.int64)
    for start in range(0, len(ids), 7000):
        index.add(ids[start : start + 7000])
    assert index.find(ids).tolist() == list(range(len(ids)))
    assert (index.find(ids + len(ids)) == -1).all()


@examples(0.5)
@given(WRITES, st.sampled_from([1, 5 * 4 * COLUMNS, 1 << 20]))
def test_a_store_is_a_dict_of_rows(writes: list[list[int]], chunk: int) -> None:
    store, known = RowStore(COLUMNS, chunk), dict[int, Array]()
    for salt, batch in enumerate(writes):
        ids = np.array(batch, np.int64)
        rows = _rows(ids, salt)
        store.write(ids, rows)
        known |= dict(zip(batch, rows, strict=True))
    out = np.full((61, COLUMNS), -1, np.float32)
    there = store.read(np.arange(61), out)
    assert np.flatnonzero(there).tolist() == sorted(known)
    assert len(store) == len(known)
    for number, row in known.items():
        assert np.array_equal(out[number], row)
    assert (out[~there] == -1).all()


@examples(0.5)
@given(WRITES, st.integers(0, 12))
def test_changes_since_a_copy_make_the_copy_current(writes: list[list[int]], at: int) -> None:
    store, copied = RowStore(COLUMNS, 64), dict[int, Array]()

    def copy() -> None:
        ids, rows = store.take_changed()
        copied.update(zip(ids.tolist(), rows, strict=True))

    for salt, batch in enumerate(writes):
        ids = np.array(batch, np.int64)
        store.write(ids, _rows(ids, salt))
        if salt == at:
            copy()
    copy()
    out = np.zeros((61, COLUMNS), np.float32)
    there = store.read(np.arange(61), out)
    assert sorted(copied) == np.flatnonzero(there).tolist()
    assert all(np.array_equal(out[number], row) for number, row in copied.items())
    assert not len(store.take_changed()[0])


def test_what_was_loaded_has_not_changed_and_what_is_marked_is_copied_again() -> None:
    store, ids = RowStore(COLUMNS), np.array([5, 1, 9])
    store.write(ids, _rows(ids, 0), changed=False)
    assert not len(store.take_changed()[0])
    store.mark(np.array([9, 1]))
    assert sorted(store.take_changed()[0].tolist()) == [1, 9]
