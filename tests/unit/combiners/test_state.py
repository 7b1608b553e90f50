"""State begins empty for every slice and run, and a combiner itself never has any."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from tests.unit.combiners.support import Array, Model, push
from tos_notebook.combiners import (
    COMBINERS,
    Combiner,
    Downpour,
    PushInfo,
    SlowMo,
    StatefulCombiner,
    get,
)
from tos_notebook.combiners.staging import stage

RANDOM = np.random.default_rng(0)
PUSHES = [RANDOM.standard_normal(6) for _ in range(12)]


def played(model: Model) -> list[Array]:
    """Three workers push in turn, each as stale as that makes it."""
    return [
        model.merge(change, worker=i % 3, workers=3, staleness=min(i, 2))[0]
        for i, change in enumerate(PUSHES)
    ]


@pytest.mark.parametrize("name", sorted(COMBINERS))
def test_one_combiner_serves_two_runs_as_if_each_had_its_own(name: str) -> None:
    alone = played(Model(get(name), np.zeros(6)))
    shared = get(name)
    before = copy.deepcopy(vars(shared))
    first, second = Model(shared, np.zeros(6)), Model(shared, np.ones(6))
    for i, change in enumerate(PUSHES):
        given = {"worker": i % 3, "workers": 3, "staleness": min(i, 2)}
        np.testing.assert_array_equal(first.merge(change, **given)[0], alone[i])
        second.merge(change, **given)
    np.testing.assert_array_equal(played(Model(shared, np.zeros(6))), alone)
    assert vars(shared).keys() == before.keys()


@pytest.mark.parametrize("name", sorted(COMBINERS))
def test_a_rule_says_what_it_keeps(name: str) -> None:
    stateful = isinstance(get(name), StatefulCombiner)
    assert (COMBINERS[name].state == "none") != stateful


@pytest.mark.parametrize("name", sorted(COMBINERS))
def test_to_begin_again_is_to_begin_with_empty_state(name: str) -> None:
    """Also from a rule in use, which a store never does."""
    model = Model(get(name), np.zeros(6))
    alone = played(model)
    again = Model(model.rules[0], np.zeros(6))
    np.testing.assert_array_equal(played(again), alone)


def test_a_rule_without_state_is_not_copied() -> None:
    rule = Downpour()
    assert rule.begin(np.zeros(1)) is rule
    assert rule.fork() is rule


def test_a_fork_has_state_of_its_own() -> None:
    rule: Any = SlowMo(1).begin(np.zeros(2))
    fork = rule.fork()
    rule.merge(np.zeros(2), np.ones(2), push())
    assert rule.m.max() == 1
    assert fork.m.max() == 0


class Momentum(StatefulCombiner):
    """The example of the documentation."""

    def reset(self, like: Array) -> None:
        self.velocity = np.zeros_like(like)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        self.velocity *= 0.5
        self.velocity += update
        center += self.velocity
        update[...] = center


def test_a_users_rule_needs_reset_and_merge() -> None:
    model = Model(Momentum(), np.zeros(2))
    for expected in (1, 2.5):
        (reply,) = model.merge(np.ones(2))
        np.testing.assert_array_equal(reply, np.full(2, expected))


def test_a_rule_that_was_not_begun_says_what_to_do() -> None:
    with pytest.raises(AttributeError, match=r"SlowMo has no attribute .* what begin"):
        SlowMo(1).merge(np.zeros(2), np.ones(2), push())
    assert repr(SlowMo(1)) == "SlowMo(k=1, lr=1.0, momentum=0.5, nesterov=False)"


def test_staging_leaves_state_and_returns_the_new_one() -> None:
    rule: Combiner = Momentum().begin(np.zeros(2))
    for _ in range(2):  # the first is not committed, so the second sees the same
        staged = stage({"W": rule}, {"W": np.zeros(2)}, {"W": np.ones(2)}, push())["W"]
        np.testing.assert_array_equal(staged.center, [1, 1])
    staged = stage({"W": staged.rule}, {"W": np.zeros(2)}, {"W": np.ones(2)}, push())["W"]
    np.testing.assert_array_equal(staged.center, [1.5, 1.5])
