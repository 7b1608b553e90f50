from __future__ import annotations

import pytest

from tests.unit.telemetry.samples import joined, lost, started
from tos_notebook.events import Repartitioned, RunFinished, StrategySwapped
from tos_notebook.telemetry.losses import lost_workers
from tos_notebook.telemetry.tally import Tally

WHO = "Partition 1 lost its worker on executor 1 (node): connection reset."


@pytest.mark.parametrize(
    ("lockstep", "continues", "then"),
    [
        (False, False, "The other workers continue, and Spark starts it again."),
        (True, False, "wait until Spark has started it again; no step is lost."),
        (True, True, "wait for it for a while, then continue without its rows."),
    ],
)
def test_it_says_who_was_lost_and_what_the_run_does(
    lockstep: bool, continues: bool, then: str
) -> None:
    (text,) = lost_workers([lost(partition=1)], lockstep, continues)
    assert text.startswith(WHO)
    assert text.endswith(then)


def test_of_many_a_few_are_named() -> None:
    found = lost_workers([lost(partition=p) for p in range(9)], False, False)
    assert len(found) == 4
    assert found[-1].startswith("So did 6 more partitions. The other workers continue")
    assert lost_workers([], True, False) == ()


def test_a_worker_is_lost_until_another_has_its_partition_or_the_run_goes_on_without() -> None:
    tally = Tally()
    tally(started())
    for ending in (
        joined(partition=1, attempt=1),
        Repartitioned(3.0, 1, 4, 0.1),
        StrategySwapped(3.0, 1, "ps", False),
        RunFinished(3.0, "stopped"),
    ):
        tally(lost(partition=1))
        tally(joined(partition=0, attempt=1))
        assert list(tally.lost) == [1]
        tally(ending)
        assert list(tally.lost) == []
