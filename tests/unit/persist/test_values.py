"""What combiners and stores keep survives a checkpoint to the bit."""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.combiners.support import Array
from tests.unit.strategies.ps.test_center import MIXED, STRIPE, filled, push, same, values
from tos_notebook.combiners import (
    COMBINERS,
    Clip,
    Combiner,
    Downpour,
    FedAdam,
    FedAvg,
    FedBuff,
    FedYogi,
    GapAware,
    Median,
    MultiKrum,
    PushInfo,
    SlowMo,
    StatefulCombiner,
    TensorCombiner,
    TrimmedMean,
    as_combiner,
    get,
)
from tos_notebook.combiners.registry import MADE
from tos_notebook.coordination.ledger import Ledger
from tos_notebook.errors import CheckpointError
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.persist.described import describe, rebuild
from tos_notebook.persist.values import decode, encode, transfer
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Copied

keys = st.integers() | st.text() | st.booleans()
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | keys | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(keys)
        | st.dictionaries(keys, inner)
        | st.lists(inner).map(lambda items: deque(items, 9))
        | st.lists(keys).map(Counter)
    ),
    max_leaves=10,
)


@settings(deadline=None)
@given(anything)
def test_values_come_back_as_they_were_through_json(value: Any) -> None:
    arrays: list[Array] = []
    found = decode(json.loads(json.dumps(encode(value, arrays))), arrays)
    assert found == value
    assert type(found) is type(value)


def test_a_part_of_what_was_saved_takes_its_arrays_along() -> None:
    arrays: list[Array] = []
    first, second = [
        encode({"m": np.full(2, n), "seen": deque([(n, np.float32(n))], 3)}, arrays) for n in (1, 2)
    ]
    mine: list[Array] = []
    moved = transfer(second, arrays, mine)
    assert len(mine) == len(arrays) // 2
    found = decode(moved, mine)
    assert found["m"].tolist() == [2, 2]
    assert found["seen"] == deque([(2, 2.0)])
    assert found["seen"].maxlen == 3
    assert decode(first, arrays)["m"].tolist() == [1, 1]


def test_arrays_are_copied_both_ways() -> None:
    given, arrays = np.arange(3.0), list[Array]()
    saved = encode({"a": given, "b": np.float32(2)}, arrays)
    given[...] = 0
    found = decode(saved, arrays)
    np.testing.assert_array_equal(found["a"], [0, 1, 2])
    found["a"][...] = 9
    np.testing.assert_array_equal(arrays[0], [0, 1, 2])
    assert found["b"] == np.float32(2)
    assert found["b"].dtype == np.float32


def test_what_cannot_be_saved_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"Combiner x\.memory\.f .* got function.*dump\(\)"):
        encode({"memory": {"f": lambda: 0}}, [], "Combiner x")


@pytest.mark.parametrize("value", [{}, {"array": 3}, {"what": []}, {"dict": [1]}, {"deque": [1]}])
def test_what_was_never_saved_is_refused(value: Any) -> None:
    with pytest.raises(CheckpointError, match="Expected a saved value"):
        decode(value, [])


NESTED: list[Combiner] = [
    Clip(5.0),
    Clip(5.0, then=GapAware(1.0)),
    Clip(5.0, then=MultiKrum(then=FedBuff(2, momentum=0.5))),
    Median(k=2, then=FedAdam(k=2)),
    TrimmedMean(0.3, then=FedAvg(2)),
]
# At its own strength DCASGD diverges with changes as large as those of these tests.
PARAMETERS: dict[str, dict[str, float]] = {"dcasgd": {"lam": 1e-9}}
RULES = [*(get(name, **PARAMETERS.get(name, {})) for name in sorted(COMBINERS)), *NESTED]


def saved(store: Center) -> Copied:
    """Return what a checkpoint file gives back of a store."""
    copied = store.snapshot()
    return copied._replace(state=json.loads(json.dumps(copied.state)))


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("before", [0, 1, 5, 8])
def test_every_combiner_goes_on_from_a_checkpoint_as_if_nothing_had_happened(
    rule: Combiner, before: int
) -> None:
    """Also in the middle of a round, and for pushes whose base was pulled before."""
    store = Center(MIXED, filled(MIXED, 0), rule, STRIPE)
    pushes = [(seed, seed % 3, min(2, seed)) for seed in range(before + 9)]
    for seed, worker, stale in pushes[:before]:
        store.merge(filled(MIXED, seed), push(store.version - stale, worker, 3, steps=1))
    again = rebuild(json.loads(json.dumps(describe(rule, MADE))), MADE)
    resumed = Center(MIXED, MIXED.allocate(), again, STRIPE)
    resumed.restore(saved(store))
    assert resumed.version == store.version
    for seed, worker, stale in pushes[before:]:
        replies = []
        for each in (store, resumed):
            update = filled(MIXED, seed)
            each.merge(update, push(each.version - min(stale, each.version), worker, 3, steps=1))
            replies.append(MIXED.tensors(update))
        assert same(*replies)
        assert same(values(store), values(resumed))


class Memory(TensorCombiner):
    """A user's own rule, which remembers by name of a tensor."""

    def __init__(self) -> None:
        self.seen: dict[str | None, Any] = {}

    def compute(self, origin_weight, new_weight, worker_id=-1, name=None):  # type: ignore
        self.seen[name] = self.seen.get(name, 0) + new_weight
        return origin_weight + self.seen[name] / 8


class Plain:
    """An object with `compute`, of no class of this package's."""

    def __init__(self) -> None:
        self.calls = 0

    def compute(self, origin_weight: Any, new_weight: Any, worker_id: int, name: str) -> Any:
        self.calls += 1
        return origin_weight + new_weight / self.calls


class Momentum(StatefulCombiner):
    def __init__(self, mu: float = 0.5) -> None:
        self.mu = mu

    def reset(self, like: Array) -> None:
        self.velocity = np.zeros_like(like)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        self.velocity = self.velocity * np.asarray(self.mu, center.dtype) + update
        center += self.velocity
        update[...] = center


REALS = Layout([ParameterSpec("a", (3,), "float64"), ParameterSpec("b", (2, 2), "float64")])


@pytest.mark.parametrize("kind", [Memory, Plain, Momentum])
def test_a_users_own_combiner_keeps_its_state_without_further_ado(kind: type[Any]) -> None:
    store = Center(REALS, REALS.allocate(), as_combiner(kind()))
    store.load(np.zeros_like(store.center))
    resumed = Center(REALS, REALS.allocate(), as_combiner(kind()))
    update = REALS.pack([np.ones(3), np.full((2, 2), 2.0)])
    for _ in range(3):
        store.merge(update.copy(), push(store.version))
    resumed.restore(saved(store))
    for each in (store, resumed):
        each.merge(update.copy(), push(each.version))
    assert same(values(store), values(resumed))
    assert describe(as_combiner(kind()), MADE) is None


def test_a_checkpoint_of_another_combiner_is_refused() -> None:
    store = Center(MIXED, filled(MIXED, 0), get("downpour"), STRIPE)
    with pytest.raises(CheckpointError, match="that of another combiner or other parameters"):
        store.restore(Center(MIXED, filled(MIXED, 0), as_combiner(Momentum()), STRIPE).snapshot())


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (FedYogi(), FedAdam()),
        (Downpour(), FedAdam()),
        (FedAdam(), SlowMo()),
        (Median(then=FedAdam()), Median(then=FedYogi())),
        (Clip(1.0, then=FedAvg()), Clip(1.0, then=SlowMo())),
    ],
    ids=repr,
)
def test_the_state_of_another_rule_is_refused_and_changes_nothing(
    mine: Combiner, other: Combiner
) -> None:
    """Also where both keep the same by name, as Adam and Yogi do."""
    store, control = (Center(MIXED, filled(MIXED, 0), mine, STRIPE) for _ in range(2))
    foreign = Center(MIXED, filled(MIXED, 7), other, STRIPE)
    for seed in range(3):
        foreign.merge(filled(MIXED, seed), push(seed, seed, 3, steps=1))
    with pytest.raises(CheckpointError, match="that of another combiner or other parameters"):
        store.restore(saved(foreign))
    assert store.version == 0
    for seed in range(3):
        for each in (store, control):
            each.merge(filled(MIXED, seed), push(seed, seed, 3, steps=1))
        assert same(values(store), values(control))


def test_state_that_a_rule_does_not_have_is_refused() -> None:
    store = Center(REALS, REALS.allocate(), FedAvg(2))
    copied = saved(store)
    copied.state["stripes"][0]["kept"].append(["striped", False])
    with pytest.raises(CheckpointError, match=r"FedAvg: expected the state count, .*got .*striped"):
        store.restore(copied)


def test_a_copy_whose_state_is_damaged_changes_nothing() -> None:
    """Not even where the damage is behind what could be restored."""
    store = Center(MIXED, filled(MIXED, 0), FedAvg(3), STRIPE)
    other = Center(MIXED, filled(MIXED, 1), FedAvg(3), STRIPE)
    other.merge(filled(MIXED, 2), push())
    copied = saved(other)
    copied.state["stripes"][-1]["class"] = "FedSgd"
    before, state = values(store), saved(store).state
    with pytest.raises(CheckpointError, match=r"Expected the state of FedAvg, got that of FedSgd"):
        store.restore(copied)
    assert (store.version, same(values(store), before)) == (0, True)
    assert saved(store).state == state


def test_a_copy_is_of_one_version_while_others_push() -> None:
    """What comes after `entered` is not in it, and follows behind it."""
    store = Center(MIXED, filled(MIXED, 0), get("downpour"), STRIPE)
    before = values(store)
    copied = store.snapshot()
    store.merge(filled(MIXED, 3), push(0))
    assert same(MIXED.tensors(copied.center), before)
    assert copied.version == 0


def test_a_ledger_says_where_the_first_open_epoch_is_and_leaves_earlier_ones_out() -> None:
    ledger = Ledger(2)
    for partition in range(2):
        ledger.begin(partition, partition, 0)
        for epoch in range(3):
            ledger.admit(epoch, partition, partition, 0, 4)
            if epoch < 2 or partition == 0:
                ledger.finish(epoch, partition, partition)
    assert (ledger.open_epoch(0), ledger.latest_epoch()) == (2, 2)
    again = Ledger.from_json(json.loads(json.dumps(ledger.to_json(2))))
    assert again.to_json()["records"] == [[2, 0, 4, 1, 4, True], [2, 1, 4, 1, 4, False]]
    assert again.open_epoch(2) == 2
    assert again.begin(0, 7, 2).epoch == 3  # type: ignore[union-attr]
    assert Ledger(2).latest_epoch() == -1
