"""Each update that the driver counts is merged once in every shard, whichever worker dies when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.long import examples
from tos_notebook.combiners import Downpour, FedAvg
from tos_notebook.common.table_rows import TableRows
from tos_notebook.errors import RemoteProtocolError, SessionClosed
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.push import Push
from tos_notebook.strategies.ps.rows.update import RowUpdate
from tos_notebook.strategies.ps.shards.center import ShardCenter
from tos_notebook.strategies.ps.shards.staging import Reached, Staging

LAYOUT = Layout([ParameterSpec("total", (), "float64")])
ROWS = 5
TABLE = Layout([*LAYOUT.specs, ParameterSpec("rows", (ROWS, 2), "float64", by_row=True)])

BEGIN = Reached((0, 0), 1)

DEATHS = ("never", "before", "staged", "counted", "merged")
"""Where a worker dies: before the last shard has its update, before or after the driver counts it,
or when only the first shard has merged it."""


def _staging(layout: Layout = LAYOUT) -> Staging:
    return Staging(ShardCenter(layout, layout.allocate(), Downpour()))


def _stage(staging: Staging, task: int, place: tuple[int, int], value: float = 1.0) -> None:
    update = LAYOUT.allocate()
    LAYOUT.tensors(update)["total"][...] = value
    version = staging.center.version
    staging.stage(0, task, place, update, Push(0, version, 1, 1, 1, "delta"))


def _stage_row(staging: Staging, task: int, place: tuple[int, int]) -> None:
    """Leave an update of one row, and of the total."""
    dense = np.ones(1).view(np.uint8)
    row = TableRows(np.array([place[1] % ROWS]), np.ones((1, 2)))
    update = RowUpdate(TABLE, dense, [row], [None], [None])
    version = staging.center.version
    staging.stage(0, task, place, update, Push(0, version, 1, 1, 1, "delta"))


def _total(staging: Staging) -> float:
    return float(staging.center.layout.tensors(staging.center.read()[0])["total"])


class Cluster:
    """A driver that counts, and shards; one partition, whose worker dies and comes again."""

    def __init__(self, shards: int, by_row: bool) -> None:
        self.shards = [_staging(TABLE if by_row else LAYOUT) for _ in range(shards)]
        self.stage = _stage_row if by_row else _stage
        self.counted = 0
        self.task = 0
        self.attach()

    def attach(self) -> None:
        """Begin the next attempt."""
        self.task += 1
        for shard in self.shards:
            shard.attach(0, self.task, Reached((0, self.counted), 1))

    def milestone(self, death: str) -> None:
        """Train a batch, as far as the worker lives."""
        place = 0, self.counted
        some = self.shards[:-1] if death == "before" else self.shards
        for shard in some:
            self.stage(shard, self.task, place)
        if death in ("before", "staged"):
            return
        self.counted += 1
        if death == "counted":
            return
        for shard in self.shards[:1] if death == "merged" else self.shards:
            shard.merge(0, self.task, place, 1)


@examples(1)
@given(
    st.integers(1, 3), st.booleans(), st.lists(st.sampled_from(DEATHS), max_size=12), st.booleans()
)
def test_every_batch_that_counts_is_in_every_shard_once(
    shards: int, by_row: bool, deaths: list[str], last_attempt: bool
) -> None:
    """Also where tables are exchanged by row."""
    cluster = Cluster(shards, by_row)
    for death in deaths:
        cluster.milestone(death)
        if death != "never":
            cluster.attach()
    cluster.milestone("counted" if last_attempt else "staged")
    for shard in cluster.shards:
        # As before a copy, or the end of a run.
        shard.resolve({0: Reached((0, cluster.counted), 1)})
    assert [_total(shard) for shard in cluster.shards] == [cluster.counted] * shards
    assert [shard.center.version for shard in cluster.shards] == [cluster.counted] * shards
    if by_row:
        counts = np.bincount(np.arange(cluster.counted) % ROWS, minlength=ROWS)
        for shard in cluster.shards:
            (table,) = TABLE.table_arrays(shard.center.read()[0])
            assert table.tolist() == [[count, count] for count in counts]


def test_an_update_that_was_merged_for_a_copy_is_not_merged_again() -> None:
    staging = _staging()
    staging.attach(0, 1, BEGIN)
    _stage(staging, 1, (0, 0))
    staging.resolve({0: Reached((0, 1), 1)})
    assert staging.merge(0, 1, (0, 0), 1) == 1
    assert _total(staging) == 1.0


@pytest.mark.parametrize("settled", ["by its worker", "for a copy", "for the next attempt"])
def test_a_rule_of_rounds_knows_the_workers_whoever_has_an_update_merged(settled: str) -> None:
    """Else each copy in memory would end rounds early, or let one worker move all parameters."""
    staging = Staging(ShardCenter(LAYOUT, LAYOUT.allocate(), FedAvg()))
    staging.attach(0, 1, BEGIN)
    _stage(staging, 1, (0, 0))
    if settled == "by its worker":
        staging.merge(0, 1, (0, 0), 4)
    elif settled == "for a copy":
        staging.resolve({0: Reached((0, 1), 4)})
    else:
        staging.attach(0, 2, Reached((0, 1), 4))
    assert staging.center.version == 1
    # The round of four workers is not over.
    assert _total(staging) == 0.0


def test_an_update_that_the_driver_leaves_out_is_forgotten() -> None:
    staging = _staging()
    staging.attach(0, 1, BEGIN)
    _stage(staging, 1, (0, 0))
    staging.withdraw(0, 1)
    _stage(staging, 1, (0, 1), 5.0)
    staging.merge(0, 1, (0, 1), 1)
    assert _total(staging) == 5.0


def test_a_second_update_waits_until_the_first_is_settled() -> None:
    staging = _staging()
    staging.attach(0, 1, BEGIN)
    _stage(staging, 1, (0, 0))
    with pytest.raises(RemoteProtocolError, match="merged or withdrawn first"):
        _stage(staging, 1, (0, 1))


def test_an_earlier_attempt_can_do_nothing_any_more() -> None:
    staging = _staging()
    staging.attach(0, 2, BEGIN)
    with pytest.raises(SessionClosed, match="a later attempt"):
        staging.attach(0, 1, BEGIN)
    with pytest.raises(SessionClosed, match="a later attempt"):
        _stage(staging, 1, (0, 0))
    with pytest.raises(SessionClosed, match="a later attempt"):
        staging.merge(0, 1, (0, 0), 1)


def test_what_cannot_be_merged_is_kept_as_the_reason() -> None:
    staging = _staging()
    staging.attach(0, 1, BEGIN)
    _stage(staging, 1, (0, 0), float(np.finfo(np.float64).max))
    staging.merge(0, 1, (0, 0), 1)
    _stage(staging, 1, (0, 1), float(np.finfo(np.float64).max))
    with pytest.raises(Exception, match="diverges"):
        staging.merge(0, 1, (0, 1), 1)
    assert "diverges" in str(staging.failed)


def test_an_update_that_nobody_can_have_made_is_refused_and_can_still_be_merged() -> None:
    staging = _staging()
    staging.attach(0, 1, Reached((0, 0), 1))
    _stage(staging, 1, (0, 0))
    with pytest.raises(RemoteProtocolError, match="at least 1 worker"):
        staging.merge(0, 1, (0, 0), 0)
    assert staging.failed is None
    assert staging.merge(0, 1, (0, 0), 1) == 1
    assert _total(staging) == 1.0
