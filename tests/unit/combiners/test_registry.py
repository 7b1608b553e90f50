"""Combiners by name, and whatever a user gives as one."""

from __future__ import annotations

import copy
import inspect
import json
from typing import Any

import numpy as np
import pytest

from tests.unit.combiners.support import Array, push
from tos_notebook.combiners import (
    BMUF,
    COMBINERS,
    EASGD,
    Combiner,
    DeltaWeightCombiner,
    DiLoCo,
    Downpour,
    FedAsync,
    MeanWeightCombiner,
    OuterMomentum,
    PushInfo,
    SlowMo,
    TensorCombiner,
    as_combiner,
    describe,
    get,
)
from tos_notebook.errors import CombinerError, ConfigError

NAMES = {
    *("downpour", "dynsgd", "adag", "easgd", "fedasync", "fedavg", "mean", "updatemean", "delta"),
    *("fedbuff", "gapaware", "diloco", "slowmo", "bmuf", "delayednesterov", "fedadam", "fedyogi"),
    *("median", "trimmedmean", "multikrum", "dcasgd"),
}


def merged(value: Any, center: float, update: float) -> tuple[float, float]:
    arrays = np.full(2, center, float), np.full(2, update, float)
    as_combiner(value).merge(*arrays, push())
    return float(arrays[0][0]), float(arrays[1][1])


def test_every_built_in_is_known_by_its_name() -> None:
    assert set(COMBINERS) == NAMES
    for name, rule in COMBINERS.items():
        for made in (get(name), as_combiner(name.upper()), as_combiner(rule)):
            assert (made.name, made.called, made.striped) == (name, rule.called, True)


def fair(center: Array, update: Array, push: PushInfo) -> Array:
    return center + update / push.workers


def test_a_function_is_shown_by_its_name() -> None:
    assert repr(as_combiner(fair)) == "fair"


def test_parameters_reach_the_combiner_by_name() -> None:
    assert repr(get("fedasync", alpha=0.1)) == "FedAsync(alpha=0.1, a=0.5)"


def test_a_preset_is_a_class_under_a_name_and_with_defaults_of_its_own() -> None:
    assert {preset.name for preset in (DiLoCo, SlowMo, BMUF)} <= set(COMBINERS)
    rule = DiLoCo(4, momentum=0.5)
    assert isinstance(rule, OuterMomentum)
    assert rule.name == "diloco"
    assert repr(rule) == "DiLoCo(k=4, lr=0.7, momentum=0.5, nesterov=True)"
    assert repr(rule.begin(np.zeros(1))) == repr(copy.deepcopy(rule)) == repr(rule)
    assert repr(OuterMomentum()).startswith("OuterMomentum(")
    with pytest.raises(ConfigError, match="DiLoCo: unknown option 'beta'"):
        DiLoCo(beta=1)


def test_a_preset_has_help() -> None:
    assert list(inspect.signature(SlowMo).parameters) == ["k", "lr", "momentum", "nesterov"]
    assert inspect.signature(SlowMo).parameters["momentum"].default == 0.5
    assert "arXiv:1910.00643" in str(inspect.getdoc(SlowMo))
    assert repr(SlowMo).startswith("SlowMo(k: ")
    with pytest.raises(ConfigError, match=r"is called as BMUF\(k: "):
        get("bmuf", beta=1)


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(CombinerError, match="Did you mean dynsgd"):
        as_combiner("dynsdg")
    with pytest.raises(CombinerError, match="Did you mean fedadam"):
        as_combiner("adam")
    with pytest.raises(CombinerError, match=r"'qqq'\. Some are dynsgd, .*describe\(\) lists all"):
        as_combiner("qqq")


def test_an_unknown_parameter_shows_how_it_is_called() -> None:
    with pytest.raises(ConfigError, match=r"EASGD\(alpha: "):
        get("easgd", beta=1)


def test_the_description_is_complete_and_plain() -> None:
    rows = describe()
    assert {row["name"] for row in rows} == NAMES
    assert all(row["rule"] and row["source"] and row["when"] and row["state"] for row in rows)
    assert json.loads(json.dumps(rows)) == rows
    (fedasync,) = [row for row in rows if row["name"] == "fedasync"]
    assert fedasync["pushes"] == "weights"
    assert fedasync["defaults"] == {"alpha": 0.6, "a": 0.5}
    assert fedasync["state"] == "none"
    (diloco,) = [row for row in rows if row["name"] == "diloco"]
    assert diloco["defaults"] == {"k": None, "lr": 0.7, "momentum": 0.9, "nesterov": True}


def test_a_combiner_and_its_class_are_taken_as_they_are() -> None:
    rule = EASGD(0.5)
    assert as_combiner(rule) is rule
    assert type(as_combiner(Downpour)) is Downpour


def test_a_users_elementwise_rule_needs_only_merge() -> None:
    class Half(Combiner):
        def merge(self, center: Array, update: Array, push: PushInfo) -> None:
            center += update / 2
            update[...] = center

    rule = as_combiner(Half)
    assert (rule.name, rule.pushes, rule.striped) == ("Half", "delta", False)
    assert merged(rule, 1, 4) == (3, 3)


def test_an_object_with_compute_needs_no_base_class() -> None:
    calls = []

    class Largest:
        def compute(self, origin: Array, new: Array, worker: int, tensor: str) -> Array:
            calls.append((worker, tensor))
            return np.maximum(origin, new)

    for value in (Largest, Largest()):
        rule = as_combiner(value)
        assert (rule.name, rule.pushes, rule.striped) == ("Largest", "weights", False)
        center, reply = rule.propose("W", np.zeros(1), np.ones(1), push(worker=3))
        assert center == reply == [1]
    assert calls == [(3, "W")] * 2


def test_a_function_gets_change_and_push() -> None:
    def rule(center: Array, update: Array, push: PushInfo) -> Array:
        return center + update / push.steps

    assert merged(rule, 1, 4) == (5, 5)
    assert (as_combiner(rule).name, as_combiner(rule).pushes) == ("rule", "delta")


def test_a_function_may_ask_for_weights() -> None:
    def rule(center: Array, update: Array, push: PushInfo) -> Array:
        return update

    rule.pushes = "weights"  # type: ignore[attr-defined]
    assert as_combiner(rule).pushes == "weights"
    rule.pushes = "gradients"  # type: ignore[attr-defined]
    with pytest.raises(CombinerError, match="'delta' or 'weights', got 'gradients'"):
        as_combiner(rule)


@pytest.mark.parametrize("original", [MeanWeightCombiner, DeltaWeightCombiner])
def test_a_compute_that_a_user_overrides_is_the_one_that_counts(original: type) -> None:
    class Mine(original):  # type: ignore[misc]
        def compute(self, origin: Array, new: Array, worker: int = -1, name: str = "") -> Array:
            return origin + new

    assert merged(Mine(), 1, 4) == (5, 5)
    assert as_combiner(Mine()).pushes == "weights"


def test_user_code_gets_copies() -> None:
    """What it changes or keeps must not be the server's memory."""

    class Vandal(TensorCombiner):
        def compute(
            self, origin_weight: Array, new_weight: Array, worker_id: int = -1, name: Any = None
        ) -> Array:
            origin_weight[...] = new_weight[...] = -1
            return origin_weight

    def vandal(center: Array, update: Array, push: PushInfo) -> Array:
        center[...] = update[...] = -1
        return center

    class Elementwise(Combiner):
        def merge(self, center: Array, update: Array, push: PushInfo) -> None:
            center[...] = update[...] = -1

    for value in (Vandal, vandal, Elementwise):
        center, update = np.zeros((2, 2)), np.ones((2, 2))
        proposed = as_combiner(value).propose("W", center, update, push())
        np.testing.assert_array_equal(proposed, np.full((2, 2, 2), -1))
        assert center.max() == center.min() == 0
        assert update.max() == update.min() == 1


class NeedsMore:
    def __init__(self, more: int) -> None:
        self.more = more

    def compute(self, origin: Array, new: Array, worker: int, name: str) -> Array:
        return origin


class TakesLess:
    def compute(self, origin: Array, new: Array) -> Array:
        return origin


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "got None of type NoneType"),
        (0.5, "got 0.5 of type float"),
        (int, "Class int is not a combiner"),
        (NeedsMore, r"give an instance, NeedsMore\(...\)"),
        (TakesLess(), "expected a call as compute"),
        (lambda center: center, "expected a call as f"),
    ],
)
def test_what_is_no_combiner_is_refused_at_once(value: Any, expected: str) -> None:
    with pytest.raises(CombinerError, match=expected):
        as_combiner(value)


def test_a_builtin_without_a_signature_is_called_to_find_out() -> None:
    assert as_combiner(np.add).name == "add"
    assert type(as_combiner(FedAsync)) is FedAsync
