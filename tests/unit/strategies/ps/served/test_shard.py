"""A shard merges rows as a combiner merges the whole table, and refuses what is not its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.long import examples
from tos_notebook.combiners import ADAG, Downpour, DynSGD
from tos_notebook.combiners.base import Combiner, PushInfo
from tos_notebook.common.arrays import Array
from tos_notebook.common.served import ServedTable, shard_of
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.strategies.ps.served.peer import ServedPeer
from tos_notebook.strategies.ps.served.shard import RowChanges, ServedRows
from tos_notebook.wire.messages import LeaveRows, Lookup

TABLE = ServedTable("users", 40, 4, 16, kept=(0.5,))
PUSHES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 39), min_size=1, max_size=10, unique=True).map(sorted),
        st.integers(0, 3),
        st.integers(1, 4),
    ),
    max_size=8,
)


def _values(ids: list[int], salt: int) -> Array:
    rng = np.random.default_rng([salt, *ids])
    return rng.standard_normal((len(ids), TABLE.columns)).astype(np.float32)


@pytest.mark.parametrize("combiner", [Downpour(), ADAG(), DynSGD()], ids=lambda c: c.name)
@examples(0.5)
@given(PUSHES, st.integers(1, 3))
def test_rows_are_merged_as_the_whole_table_would_be(
    combiner: Combiner, pushes: list[tuple[list[int], int, int]], shards: int
) -> None:
    everything = np.arange(TABLE.rows)
    expected = TABLE.begin(everything)
    rows = [ServedRows([TABLE], number, shards) for number in range(shards)]
    for count, (ids, staleness, workers) in enumerate(pushes):
        info, values = PushInfo(0, staleness, 2, 8, workers, count), _values(ids, count)
        whole = np.zeros((TABLE.rows, TABLE.width), np.float32)
        whole[ids] = values[:, : TABLE.width]
        center = np.ascontiguousarray(expected[:, : TABLE.width])
        combiner.merge(center.reshape(-1), whole.reshape(-1), info)
        expected[:, : TABLE.width] = center
        expected[ids, TABLE.width :] = values[:, TABLE.width :]
        owners = shard_of(np.array(ids), shards)
        for number, shard in enumerate(rows):
            mine = owners == number
            shard.merge([RowChanges(0, np.array(ids)[mine], values[mine])], combiner, info)
    owners = shard_of(everything, shards)
    for number, shard in enumerate(rows):
        mine = owners == number
        assert np.array_equal(shard.find(0, everything[mine]), expected[mine])


def test_a_row_that_is_only_read_is_not_kept() -> None:
    rows = ServedRows([TABLE], 0, 1)
    assert np.array_equal(rows.find(0, np.array([3, 7])), TABLE.begin(np.array([3, 7])))
    assert len(rows) == 0


def test_a_copy_that_the_driver_has_not_received_comes_again() -> None:
    rows = ServedRows([TABLE], 0, 1)
    info = PushInfo(0, 0, 1, 1, 1, 0)
    rows.merge([RowChanges(0, np.array([3]), _values([3], 0))], Downpour(), info)
    assert rows.copy_changed(True)[0].tolist() == [3]
    rows.merge([RowChanges(0, np.array([7]), _values([7], 0))], Downpour(), info)
    assert sorted(rows.copy_changed(False)[0].tolist()) == [3, 7]
    assert rows.copy_changed(True)[0].tolist() == []


def _ids(*numbers: int) -> bytes:
    return np.array(numbers, np.int64).tobytes()


def _mine(shards: int, number: int) -> list[int]:
    return np.flatnonzero(shard_of(np.arange(TABLE.rows), shards) == number).tolist()


def _send(peer: ServedPeer, message: Any, payload: bytes) -> None:
    target = peer.receive_into(message, len(payload))
    if target is not None:
        target[:] = payload
    peer.find(message) if isinstance(message, Lookup) else peer.leave(message)


MINE, OTHERS = _mine(2, 0), _mine(2, 1)

LOOKUPS = {
    "another table": (1, _ids(MINE[0]), "one of 1 served tables, got 1"),
    "half a number": (0, _ids(MINE[0])[:5], "16 times 8 bytes, got 5"),
    "too many": (0, _ids(*range(17)), "16 times 8 bytes, got 136"),
    "below 0": (0, _ids(-1), "from 0 to 39"),
    "beyond the table": (0, _ids(40), "from 0 to 39"),
    "twice": (0, _ids(MINE[0], MINE[0]), "ascending"),
    "descending": (0, _ids(MINE[1], MINE[0]), "ascending"),
    "another shard's": (0, _ids(OTHERS[0]), "rows of shard 1"),
}


@pytest.mark.parametrize(("table", "payload", "said"), LOOKUPS.values(), ids=LOOKUPS)
def test_a_wrong_question_is_refused(table: int, payload: bytes, said: str) -> None:
    peer = ServedPeer(ServedRows([TABLE], 0, 2))
    with pytest.raises(RemoteProtocolError, match=said):
        _send(peer, Lookup(table), payload)


CHANGES = {
    "half a row": (_ids(MINE[0]) + b"\0" * 31, "16 times 40 bytes, got 39"),
    "another shard's": (_ids(OTHERS[0]) + b"\0" * 32, "rows of shard 1"),
    "NaN": (_ids(MINE[0]) + np.full(8, np.nan, np.float32).tobytes(), "finite changes"),
}


@pytest.mark.parametrize(("payload", "said"), CHANGES.values(), ids=CHANGES)
def test_wrong_changes_are_refused_and_nothing_is_kept_of_them(payload: bytes, said: str) -> None:
    rows = ServedRows([TABLE], 0, 2)
    peer = ServedPeer(rows)
    with pytest.raises(RemoteProtocolError, match=said):
        _send(peer, LeaveRows(0, 0, 3), payload)
    assert peer.take((0, 3)) == []
    assert len(rows) == 0


def test_changes_belong_to_the_push_that_they_name_and_to_no_other() -> None:
    peer = ServedPeer(ServedRows([TABLE], 0, 2))
    payload = _ids(MINE[0]) + np.ones(8, np.float32).tobytes()
    _send(peer, LeaveRows(0, 0, 3), payload)
    assert peer.take((0, 4)) == []
    _send(peer, LeaveRows(0, 0, 4), payload)
    (changes,) = peer.take((0, 4))
    assert changes.ids.tolist() == [MINE[0]]
    assert (changes.values == 1).all()
    assert peer.take((0, 4)) == []
