"""A worker adopts what shards answer at once, and every update counts once in each shard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.strategies.ps.rows.support import bench, change, equal
from tos_notebook.events import MilestoneCommitted
from tos_notebook.strategies.ps.shards.peer import ShardHandler
from tos_notebook.wire.messages import Collect

PUSHES = 6
SHARDS = 2


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a worker asked for parameters, of each time that it had an update merged."""
    found: list[bool] = []
    handle = ShardHandler.handle

    def noted(self: ShardHandler, message: Any, payload: Any) -> Any:
        if isinstance(message, Collect) and message.merge:
            found.append(message.give)
        return handle(self, message, payload)

    monkeypatch.setattr(ShardHandler, "handle", noted)
    return found


@pytest.mark.parametrize("combiner", ["downpour", "dynsgd", "adag"])
def test_one_worker_has_the_center_to_the_bit_without_asking_for_it(
    combiner: str, asked: list[bool]
) -> None:
    with bench(combiner, by_row=False, shards=SHARDS) as run, bench(combiner, False) as plain:
        for seed in range(PUSHES):
            for each in run, plain:
                each.push(0, change(seed, 0.5))
            assert equal(run.adopted(0), run.center)
            assert equal(run.center, plain.center)
    assert asked == [False] * SHARDS * PUSHES


def test_what_others_push_before_its_own_is_counted_comes_with_the_next_answer() -> None:
    """The worker has all of its own, and says truly how stale the next update is."""
    with bench("downpour", by_row=False, shards=SHARDS) as run:
        for number in range(2):
            run.push(number, change(number, 1))
        worker, ones = run.worker(0), {n: np.ones_like(v) for n, v in run.center.items()}
        before, traffic = run.center, worker._traffic

        def overtaken() -> bytes:
            run.push(1, {name: 10 * value for name, value in ones.items()})
            return bytes(traffic())

        worker._traffic = overtaken
        run.push(0, ones)
        worker._traffic = traffic
        for name, values in run.adopted(0).items():
            assert np.allclose(values, before[name] + 1, atol=1e-5)
            assert np.allclose(run.center[name], before[name] + 11, atol=1e-5)
        run.push(0, ones)
        assert equal(run.adopted(0), run.center)
        committed = [e for e in run.events if isinstance(e, MilestoneCommitted)]
        # The worker's first is one that it began before the other's.
        assert [e.staleness for e in committed if e.partition == 0][-2:] == [2, 1]


@pytest.mark.parametrize("combiner", ["fedavg", "easgd"])
def test_rules_with_state_and_workers_that_keep_their_own_get_the_outcome_of_the_merge(
    combiner: str, asked: list[bool]
) -> None:
    with bench(combiner, by_row=False, shards=SHARDS) as run, bench(combiner, False) as plain:
        for seed in range(PUSHES):
            for each in run, plain:
                each.push(0, change(seed, 0.5))
            assert equal(run.adopted(0), plain.adopted(0))
    assert asked == [True] * SHARDS * PUSHES


def test_workers_that_wait_for_each_other_adopt_what_all_have_pushed() -> None:
    with bench("downpour", False, shards=SHARDS, sync="bsp") as run:
        for number in range(3):
            run.worker(number)
        for seed in range(PUSHES):
            for number in range(3):
                run.push(number, change(3 * seed + number, 0.5))
            for number in sorted(run.waiting):
                run.go_on(number)
            for number in range(3):
                assert equal(run.adopted(number), run.center)


def test_what_is_encoded_both_ways_stays_what_the_shard_knows(asked: list[bool]) -> None:
    """Each answer is a difference to what the worker has adopted."""
    with bench("downpour", by_row=False, codec="int8/int8", shards=SHARDS) as run:
        for seed in range(PUSHES):
            run.push(0, change(seed, 0.5))
        for name, values in run.adopted(0).items():
            assert np.allclose(values, run.center[name], atol=0.05)
    assert asked == [False] * SHARDS * PUSHES
