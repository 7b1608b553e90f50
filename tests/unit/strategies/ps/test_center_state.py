"""State beside the center: exact under threads, untouched by failures, empty after a swap."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.rules import Momentum
from tests.unit.combiners.support import Array
from tests.unit.strategies.ps.test_center import (
    MIXED,
    STRIPE,
    WIDE,
    filled,
    in_threads,
    merging,
    push,
    same,
    values,
)
from tos_notebook.combiners import (
    BMUF,
    COMBINERS,
    DCASGD,
    Clip,
    Combiner,
    DelayedNesterov,
    DiLoCo,
    Downpour,
    FedAdam,
    FedBuff,
    FedYogi,
    GapAware,
    Median,
    MultiKrum,
    Part,
    PushInfo,
    SlowMo,
    StatefulCombiner,
    TrimmedMean,
    get,
)
from tos_notebook.errors import CombinerError, NonFiniteUpdate, WaitTimeout
from tos_notebook.strategies.ps.center import Center

WORKERS = 4

RULES: list[Combiner] = [
    FedBuff(3),
    DiLoCo(),
    SlowMo(2),
    BMUF(1),
    DelayedNesterov(),
    FedAdam(k=2),
    FedYogi(),
    GapAware(1.0),
    DCASGD(0.01),
    Median(),
    TrimmedMean(k=3),
    MultiKrum(),
    Clip(50.0),
    Clip(50.0, then=GapAware(1.0)),
    Clip(50.0, then=MultiKrum(then=DiLoCo())),
    Median(then=FedAdam()),
]


def reals(seed: int) -> Array:
    random = np.random.default_rng(seed)
    return WIDE.pack([(random.standard_normal(s.shape) * 9).astype(s.dtype) for s in WIDE.specs])


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_concurrent_pushes_equal_the_same_pushes_one_by_one(rule: Combiner) -> None:
    """Every reply is, to the bit, what it had been if pushes came in their versions' order."""
    store = Center(WIDE, WIDE.allocate(), rule, stripe_bytes=512)
    log: dict[int, tuple[int, int, Array]] = {}

    def work(worker: int) -> None:
        base = 0
        for step in range(12):
            seed = worker * 100 + step
            update = reals(seed)
            done = store.merge(update, push(base, worker, WORKERS, steps=1))
            log[done.version] = seed, base, update
            base = done.version

    in_threads(WORKERS, work)
    # The same stripes: a norm over them is rounded in their order.
    again = Center(WIDE, WIDE.allocate(), rule, stripe_bytes=512)
    for version in range(1, 12 * WORKERS + 1):
        seed, base, reply = log[version]
        update = reals(seed)
        done = again.merge(update, push(base, seed // 100, WORKERS, steps=1))
        assert done.version == version
        np.testing.assert_array_equal(update, reply)
    assert same(values(store), values(again))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_swap_to_the_same_combiner_begins_with_empty_state(rule: Combiner) -> None:
    swapped = Center(WIDE, WIDE.allocate(), rule, stripe_bytes=512)
    for seed in range(5):
        swapped.merge(reals(seed), push(swapped.version, seed % WORKERS, WORKERS, steps=1))
    fresh = Center(WIDE, swapped.read()[0], rule, stripe_bytes=512)
    swapped.swap(rule)
    bases = swapped.version, fresh.version
    for seed in range(9):
        for store, base in zip((swapped, fresh), bases, strict=True):
            store.merge(reals(seed), push(base, seed % WORKERS, WORKERS, steps=1))
        assert same(values(swapped), values(fresh))


@pytest.mark.parametrize("name", sorted(COMBINERS))
def test_a_refused_push_leaves_centre_and_state(name: str) -> None:
    store, control = (Center(MIXED, filled(MIXED, 0), get(name), STRIPE) for _ in range(2))
    for seed in range(9):
        bad = filled(MIXED, 99 + seed)
        MIXED.tensors(bad)["h"][...] = np.nan
        before = values(store)
        with pytest.raises(NonFiniteUpdate):
            store.merge(bad, push(store.version, seed % 3, 3, steps=1, finite=False))
        assert same(values(store), before)
        for each in (store, control):
            each.merge(filled(MIXED, seed), push(each.version, seed % 3, 3, steps=1))
        assert same(values(store), values(control))


def test_a_push_that_dcasgd_refuses_leaves_centre_version_and_state() -> None:
    store, control = (Center(MIXED, filled(MIXED, 0), DCASGD(), STRIPE) for _ in range(2))
    for seed in range(4):
        with pytest.raises(CombinerError, match="got 5 from worker 1"):
            store.merge(filled(MIXED, 9), push(store.version, worker=1, steps=5))
        for each in (store, control):
            each.merge(filled(MIXED, seed), push(max(0, seed - 1), seed % 2, steps=1))
        assert (store.version, same(values(store), values(control))) == (seed + 1, True)


class Failing(Momentum):
    """It does at every push of worker 13."""

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        super().merge(center, update, push)
        if center.dtype == np.float16 and push.worker == 13:
            raise ZeroDivisionError("mine")


def test_a_users_stateful_rule_that_fails_leaves_centre_and_state() -> None:
    store, control = (Center(MIXED, filled(MIXED, 0), Failing(), STRIPE) for _ in range(2))
    for seed in range(4):
        with pytest.raises(CombinerError, match="Failing, parameter 'h': raised ZeroDivision"):
            store.merge(filled(MIXED, 9), push(store.version, worker=13))
        for each in (store, control):
            each.merge(filled(MIXED, seed), push(each.version))
        assert (store.version, same(values(store), values(control))) == (seed + 1, True)
    assert not same(values(store), MIXED.tensors(filled(MIXED, 0)))


def test_a_users_stateful_rule_equals_the_striped_one() -> None:
    class Striped(Momentum):
        striped = True

    stores = [Center(MIXED, filled(MIXED, 0), rule(), STRIPE) for rule in (Momentum, Striped)]
    for seed in range(4):
        for store in stores:
            store.merge(filled(MIXED, seed), push(store.version))
        assert same(values(stores[0]), values(stores[1]))


class Prepares(Downpour):
    """Fails while it prepares, or stops until it is let go."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.merging, self.seen = 0, [0]

    def prepare(self, parts: Sequence[Part], push: PushInfo) -> None:
        self.seen.append(self.merging)
        if self.error:
            raise self.error

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        self.merging += 1
        super().merge(center, update, push)
        self.merging -= 1


@pytest.mark.parametrize("striped", [True, False])
def test_a_rule_that_fails_to_prepare_is_named_and_changes_nothing(striped: bool) -> None:
    rule = Prepares()
    rule.striped = striped
    store = Center(MIXED, filled(MIXED, 0), rule, STRIPE)
    rule.error = MemoryError("no room")
    with pytest.raises(CombinerError, match="Prepares: raised MemoryError: no room in prepare"):
        store.merge(filled(MIXED, 1), push())
    rule.error = CombinerError("not this one")
    with pytest.raises(CombinerError, match=r"^not this one$"):
        store.merge(filled(MIXED, 1), push())
    assert same(values(store), MIXED.tensors(filled(MIXED, 0)))
    rule.error = None
    assert store.merge(filled(MIXED, 1), push()).version == 1


def test_to_prepare_a_rule_has_the_model_to_itself() -> None:
    """It reads what merges write: MultiKrum's distances to the voices before."""
    rule = Prepares()
    store = Center(WIDE, WIDE.allocate(), rule, stripe_bytes=512)

    def work(worker: int) -> None:
        for step in range(20):
            store.merge(reals(worker * 100 + step), push(store.version, worker))

    in_threads(4, work)
    assert (len(rule.seen), max(rule.seen)) == (81, 0)


def test_to_prepare_waits_for_merges_under_way() -> None:
    entered, leave = threading.Event(), threading.Event()

    class StopsAtTheLastStripe(Prepares):
        def merge(self, center: Array, update: Array, push: PushInfo) -> None:
            if center.dtype == np.float16:
                entered.set()
                leave.wait(timeout=30)

    rule = StopsAtTheLastStripe()
    store = Center(MIXED, filled(MIXED, 0), rule, STRIPE, patience=0.001)
    with merging(store, entered, leave), pytest.raises(WaitTimeout):
        store.merge(filled(MIXED, 2), push())
    assert rule.seen == [0, 0]


def test_a_combiner_that_cannot_begin_is_named_and_the_old_one_stays() -> None:
    class NoRoom(StatefulCombiner):
        def reset(self, like: Array) -> None:
            raise MemoryError("no room")

        def merge(self, center: Array, update: Array, push: PushInfo) -> None: ...

    with pytest.raises(CombinerError, match="NoRoom could not begin: MemoryError: no room"):
        Center(MIXED, filled(MIXED, 0), NoRoom())
    store = Center(MIXED, filled(MIXED, 0), SlowMo(1), STRIPE)
    control = Center(MIXED, filled(MIXED, 0), SlowMo(1), STRIPE)
    for seed in range(3):
        with pytest.raises(CombinerError, match="could not begin"):
            store.swap(NoRoom())
        for each in (store, control):
            each.merge(filled(MIXED, seed), push(each.version))
    assert repr(store.combiner) == repr(SlowMo(1))
    assert same(values(store), values(control))


def test_a_push_made_for_the_combiner_before_meets_its_state() -> None:
    """Changes that come after a swap to weights are still averaged, not lost."""
    store = Center(WIDE, WIDE.allocate(), SlowMo(2, 1.0, 0))
    one = [np.ones(s.shape, s.dtype) for s in WIDE.specs]
    store.merge(WIDE.pack(one), push())
    store.swap(get("easgd"))
    store.merge(WIDE.pack(one), push(pushes="delta"))
    assert values(store)["W"].max() == values(store)["W"].min() == 1


def test_two_runs_of_one_combiner_share_nothing() -> None:
    rule: Any = DiLoCo(1)
    first, alone = (Center(WIDE, WIDE.allocate(), rule) for _ in range(2))
    for seed in range(4):
        first.merge(reals(seed), push(first.version))
        Center(WIDE, WIDE.allocate(), rule).merge(reals(9), push())
    for seed in range(4):
        alone.merge(reals(seed), push(alone.version))
    assert same(values(first), values(alone))
