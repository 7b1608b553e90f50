"""How a run is asked for chaos, and that it ends."""

from __future__ import annotations

from typing import Any

import pytest

import tos_notebook as tos
from tos_notebook.chaos import Kill, Pause, Rule, Slow
from tos_notebook.chaos.fit import Place
from tos_notebook.chaos.words import as_rules
from tos_notebook.errors import ConfigError, InvalidTransition


class FakeRun:
    def __init__(self) -> None:
        self.asked: list[tuple[Rule, ...]] = []
        self.over = False

    def chaos(self, *rules: Rule) -> None:
        if self.over:
            raise InvalidTransition("finished", "chaos", "it is over.")
        self.asked.append(rules)


def test_a_block_takes_it_back_whatever_happens() -> None:
    run = FakeRun()
    with tos.chaos.on(run, Slow(5, worker=1), Kill()):
        assert run.asked == [(Slow(5, worker=1), Kill())]
    with pytest.raises(ZeroDivisionError), tos.chaos.on(run, Slow(2)):
        raise ZeroDivisionError
    assert run.asked[1:] == [(), (Slow(2),), ()]


def test_a_block_may_outlive_the_run_but_not_begin_after_it() -> None:
    run = FakeRun()
    with tos.chaos.on(run, Slow(2)):
        run.over = True
    with pytest.raises(InvalidTransition), tos.chaos.on(run, Slow(2)):
        pytest.fail("the run was over")


def test_a_block_without_rules_is_a_mistake() -> None:
    run = FakeRun()
    with pytest.raises(ConfigError, match="at least one rule"), tos.chaos.on(run):
        pytest.fail("nothing was asked for")
    assert run.asked == []


@pytest.mark.parametrize(
    ("what", "amount", "options", "rules"),
    [
        ("slow", 5, {"worker": 1}, (Slow(5, worker=1),)),
        ("slow", 2, {"executor": "0", "for_seconds": 60.0, "at": None},
         (Slow(2, executor="0", for_seconds=60),)),
        ("pause", 2, {"worker": 1}, (Pause(2, worker=1),)),
        ("kill", None, {"worker": 1, "at": 3}, (Kill(worker=1, at=3),)),
        ("off", None, {"worker": None}, ()),
    ],
)  # fmt: skip
def test_rules_from_words(what: str, amount: Any, options: Any, rules: Any) -> None:
    assert as_rules(what, amount, **options) == rules


@pytest.mark.parametrize(
    ("what", "amount", "options", "text"),
    [
        ("slwo", 5, {}, "got 'slwo'. Did you mean slow?"),
        (None, None, {}, "expected one of slow, pause, kill, off; got None"),
        ("slow", None, {}, "chaos slow: expected how many times slower, such as slow 5"),
        ("pause", None, {}, "chaos pause: expected seconds in each milestone, such as pause 2"),
        ("kill", 3, {}, "chaos kill: expected no amount, got 3"),
        ("off", None, {"worker": 1}, "chaos off: expected nothing else, got worker"),
        ("slow", 0.5, {}, "factor: expected 1 to 1000"),
        ("slow", "much", {}, "factor"),
    ],
)
def test_mistakes_in_words_are_named(what: Any, amount: Any, options: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        as_rules(what, amount, **options)
    assert text in str(caught.value)


PLACE = Place(2, {"0", "1"}, "spark://host:7077", 4)


@pytest.mark.parametrize(
    ("place", "rule", "text"),
    [
        (PLACE, Slow(2, worker=2), "worker: expected a partition from 0 to 1, got 2"),
        (PLACE, Slow(2, executor="2"), "executor: expected one of 0, 1; got '2'"),
        (PLACE, "slow", r"expected rules such as .* got 'slow'"),
        (Place(2, (), "local[2]", 1), Kill(), r"master local\[2\] does not try .* local\[2,4\]"),
    ],
)
def test_rules_that_do_not_fit_the_run_are_refused(place: Place, rule: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        place.check([Slow(2), rule])


def test_rules_that_fit() -> None:
    PLACE.check([Slow(2, worker=1), Pause(3, executor="0"), Kill()])
    # Before the first worker has joined the executors are unknown.
    Place(2, (), "local[2]", 1).check([Slow(2, executor="7")])


def test_nothing_starts_with_chaos() -> None:
    """No parameter of a session, nor a default of the magics, turns it on."""
    import inspect

    from tos_notebook.magics import TosMagics

    for function in (tos.TrainingSession.__init__, tos.TrainingSession.start, tos.connect):
        assert not [name for name in inspect.signature(function).parameters if "chaos" in name]
    assert not [name for name in TosMagics.class_trait_names(config=True) if "chaos" in name]
