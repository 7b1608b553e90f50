"""`check_combiner` passes what holds, and names what does not."""

from __future__ import annotations

import doctest
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.rules import Momentum
from tests.unit.combiners.support import FLOATS, INTEGERS, Array
from tos_notebook.combiners import (
    COMBINERS,
    DCASGD,
    Clip,
    Combiner,
    DiLoCo,
    FedAdam,
    Median,
    MultiKrum,
    Part,
    PushInfo,
    TensorCombiner,
)
from tos_notebook.errors import CombinerCheckFailed, CombinerError, ConfigError
from tos_notebook.testing import CHECKS, CheckReport, check_combiner


@pytest.mark.parametrize("name", sorted(COMBINERS))
def test_every_built_in_passes_on_floats_and_integers(name: str) -> None:
    report = check_combiner(name, dtypes=FLOATS + INTEGERS, models=10)
    assert report.passed
    assert {finding.outcome for finding in report.findings} == {"ok"}


@pytest.mark.parametrize(
    "rule",
    [
        Clip(1.0),
        Clip(1.0, then=Median(k=5, then=FedAdam())),
        Median(then=DiLoCo()),
        MultiKrum(then=FedAdam()),
        DCASGD(0),
    ],
    ids=repr,
)
def test_compositions_pass(rule: Combiner) -> None:
    assert check_combiner(rule, models=10).passed


class Mean(TensorCombiner):
    def compute(
        self, origin_weight: Array, new_weight: Array, worker_id: int = -1, name: Any = None
    ) -> Array:
        return np.asarray((origin_weight + new_weight) / 2)


@pytest.mark.parametrize("value", [Momentum, Momentum(), Mean, Mean(), lambda c, u, p: c + u])
def test_a_users_rule_passes_and_need_not_be_striped(value: Any) -> None:
    report = check_combiner(value, models=5)
    skipped = [finding.check for finding in report.findings if finding.outcome == "skipped"]
    assert skipped == ["slices or whole, the result is the same"]


class Merges(Combiner):
    """What the bad ones have in common."""

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        center += self.step(update)
        update[...] = center

    def step(self, update: Array) -> Any:
        return update


class Infinite(Merges):
    striped = True

    def step(self, update: Array) -> Any:
        return np.full_like(update, np.inf)


class NotSliced(Merges):
    striped = True

    def step(self, update: Array) -> Any:
        return update.sum()


class Random(Merges):
    def step(self, update: Array) -> Any:
        return update + np.random.default_rng().standard_normal()


class Leaky(Merges):
    total: Any = 0.0

    def step(self, update: Array) -> Any:
        self.total += float(update.sum())
        return self.total


class LeakyAfterwards(Merges):
    """Begins again for each run, but too late for two at the same time."""

    runs = 0

    def begin(self, like: Array) -> Combiner:
        self.runs += 1
        return self

    def step(self, update: Array) -> Any:
        return update / self.runs


class Restless(Merges):
    def step(self, update: Array) -> Any:
        return update + 1


class Vandal(Merges):
    def propose(
        self, name: str, center: Array, update: Array, push: PushInfo
    ) -> tuple[Array, Array]:
        center += update
        return center, center


def wrong_shape(center: Array, update: Array, push: PushInfo) -> Array:
    return np.zeros((*center.shape, 2))


def raises(center: Array, update: Array, push: PushInfo) -> Array:
    raise KeyError("mine")


class Unprepared(Merges):
    def prepare(self, parts: Sequence[Part], push: PushInfo) -> None:
        raise KeyError("mine")


@pytest.mark.parametrize(
    ("value", "failed"),
    [
        (Infinite, "finite values stay finite: parameter 'p0' became NaN or infinite"),
        (wrong_shape, "finite values stay finite: Combiner wrong_shape, parameter 'p0': expected"),
        (raises, "KeyError: 'mine'"),
        (Unprepared, "raised KeyError: 'mine' in prepare"),
        (Vandal, "propose changed an argument"),
        (NotSliced, "depends on how the model is cut into slices"),
        (Random, "two runs of the same pushes differ"),
        (Leaky, "at the same time changes the result; keep it in a StatefulCombiner"),
        (LeakyAfterwards, "StatefulCombiner"),
        (Restless, "moved; if it is meant to, set fixed_point = False"),
    ],
)
def test_what_does_not_hold_is_named(value: Any, failed: str) -> None:
    with pytest.raises(CombinerCheckFailed) as caught:
        check_combiner(value)
    lines = [line for line in str(caught.value).splitlines() if "FAILED" in line]
    assert any(failed in line for line in lines)
    assert all("(model: p0 " in line for line in lines)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), CombinerCheckFailed)


def test_a_rule_that_moves_by_itself_may_say_so() -> None:
    class Honest(Restless):
        fixed_point = False

    findings = check_combiner(Honest).findings
    assert findings[-1].outcome == "skipped"
    assert "fixed_point" in findings[-1].detail


def test_an_instance_is_not_changed_by_the_checks() -> None:
    rule = Leaky()
    with pytest.raises(CombinerCheckFailed):
        check_combiner(rule)
    assert rule.total == 0


def test_an_instance_that_cannot_be_copied_is_checked_itself() -> None:
    class Locked(Merges):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    assert check_combiner(Locked(), models=3).passed


@pytest.mark.parametrize(
    ("call", "error", "expected"),
    [
        (lambda: check_combiner("dynsdg"), CombinerError, "Did you mean dynsgd"),
        (lambda: check_combiner(3), CombinerError, "got 3 of type int"),
        (lambda: check_combiner("adag", dtypes=()), ConfigError, "at least one dtype"),
        (lambda: check_combiner("adag", models=0), ConfigError, "at least one dtype and model"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    call: Callable[[], CheckReport], error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=expected):
        call()


def test_the_same_seed_tries_the_same_models() -> None:
    texts = []
    for seed in (1, 1, 2):
        with pytest.raises(CombinerCheckFailed) as caught:
            check_combiner(Restless, seed=seed)
        texts.append(str(caught.value))
    assert texts[0] == texts[1] != texts[2]


def test_the_documentation_shows_what_it_prints() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(check_combiner, globs={})
    assert doctest.DocTestRunner().run(example).failed == 0


def test_it_is_exported_and_reads_as_a_table() -> None:
    report = tos.testing.check_combiner("dynsgd", models=1)
    lines = repr(report).splitlines()
    assert lines[0] == "DynSGD(exponent=1.0): all checks hold"
    assert [line.split(maxsplit=1)[1] for line in lines[1:]] == list(CHECKS)
