"""Whom rules strike, and when."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tos_notebook as tos
from tos_notebook.chaos import Kill, Pause, Rule, Slow
from tos_notebook.chaos.mishap import LONGEST, NOTHING, Mishap, as_mishap
from tos_notebook.chaos.rules import in_words
from tos_notebook.chaos.state import Chaos
from tos_notebook.errors import ConfigError, RemoteProtocolError
from tos_notebook.wire.bodies import decode_body, encode_body
from tos_notebook.wire.messages import Directive, Proceed
from tos_notebook.wire.settings import WorkerSettings

PARTITIONS = st.integers(1, 40)


def struck(rule: Rule, partitions: int, executor: str = "0") -> list[int]:
    return [p for p in range(partitions) if rule.means(p, executor, partitions)]


@given(partitions=PARTITIONS, count=st.integers(1, 50))
def test_as_many_are_drawn_as_asked_for_and_the_same_each_time(partitions: int, count: int) -> None:
    drawn = struck(Slow(2, any=count), partitions)
    assert len(drawn) == min(count, partitions)
    assert drawn == struck(Kill(any=count), partitions)
    assert set(drawn) <= set(struck(Slow(2, any=count + 1), partitions))


@given(partitions=PARTITIONS)
def test_without_a_choice_it_is_one_worker(partitions: int) -> None:
    assert struck(Slow(2), partitions) == struck(Slow(2, any=1), partitions)
    assert len(struck(Slow(2), partitions)) == 1


def test_a_worker_is_named_by_its_partition_or_its_executor() -> None:
    assert struck(Slow(2, worker=2), 4) == [2]
    assert struck(Slow(2, executor="7"), 3, "7") == [0, 1, 2]
    assert struck(Slow(2, executor="7"), 3, "8") == []


@given(at=st.integers(1, 100), milestone=st.integers(1, 1000))
def test_at_one_milestone_or_at_all(at: int, milestone: int) -> None:
    assert Slow(2, at=at).falls_on(0, milestone) == (milestone == at)
    assert Slow(2).falls_on(0, milestone)


@given(low=st.floats(0.01, 1), high=st.floats(0.01, 1), milestone=st.integers(1, 1000))
def test_a_higher_probability_strikes_whenever_a_lower_one_does(
    low: float, high: float, milestone: int
) -> None:
    low, high = sorted((low, high))
    if Slow(2, probability=low).falls_on(3, milestone):
        assert Slow(2, probability=high).falls_on(3, milestone)
    assert Slow(2, probability=1).falls_on(3, milestone)


def test_a_probability_is_met() -> None:
    rule = Slow(2, probability=0.2)
    hits = sum(rule.falls_on(partition, n) for partition in range(10) for n in range(1, 1001))
    assert 1800 < hits < 2200


def test_every_process_draws_the_same() -> None:
    code = (
        "from tos_notebook.chaos import Slow\n"
        "rule = Slow(2, probability=0.5, any=3)\n"
        "print([rule.falls_on(1, n) for n in range(50)], [rule.means(p, '', 9) for p in range(9)])"
    )
    done = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert done[0] == done[1]
    assert "True" in done[0]


def test_every_kind_is_described_with_an_example_that_can_be_typed() -> None:
    rows = tos.chaos.describe()
    assert [row["name"] for row in rows] == ["Slow", "Pause", "Kill"]
    assert all(row["summary"] and row["when"] for row in rows)
    for row in rows:
        assert type(eval(row["example"], vars(tos.chaos))).__name__ == row["name"]
    assert "<table>" in str(rows._repr_html_())


# -- while it trains --------------------------------------------------------------------


def train(chaos: Chaos, partition: int = 0, task: int = 0, executor: str = "0") -> Mishap:
    """Return what happens in a partition's next milestone, and count it."""
    mishap = chaos.strike(partition, executor, task, 4)
    chaos.tick(partition, 0)
    return mishap


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=60))
def test_a_kill_strikes_each_worker_once(asked: list[tuple[int, int]]) -> None:
    """Whatever the order of workers and however often they ask before each milestone."""
    chaos = Chaos([Kill(any=4)])
    tasks, dead = dict.fromkeys(range(4), 0), dict.fromkeys(range(4), 0)
    for partition, again in asked:
        answers = {chaos.strike(partition, "0", tasks[partition], 4) for _ in range(again + 1)}
        assert len(answers) == 1
        if answers == {NOTHING}:
            chaos.tick(partition, 0)
        else:
            dead[partition] += 1
            tasks[partition] += 1
            assert chaos.strike(partition, "0", tasks[partition], 4) == NOTHING
    asked_of = {partition for partition, _ in asked}
    assert all(dead[partition] == (partition in asked_of) for partition in range(4))
    assert (chaos.in_force(4) == ()) == all(dead.values())


def test_each_worker_of_an_executor_is_struck_and_those_to_come_as_well() -> None:
    chaos = Chaos([Kill(executor="7")])
    killed = [train(chaos, p, executor=e).kill for p, e in [(0, "7"), (1, "8"), (0, "7")]]
    assert killed == [True, False, False]
    assert train(chaos, 1, executor="7").kill
    assert chaos.in_force(2) == (Kill(executor="7"),)


def test_milestones_count_for_each_partition_and_from_the_rules_on() -> None:
    chaos = Chaos([Slow(3, any=4, at=2)], version=5)
    chaos.tick(0, 4)  # begun before the rules were there
    assert chaos.strike(0, "0", 0, 4) == NOTHING
    chaos.tick(0, 5)
    assert chaos.strike(0, "0", 0, 4) == Mishap(slow=3)
    assert chaos.strike(1, "0", 1, 4) == NOTHING


def test_rules_end_with_their_time() -> None:
    now = [100.0]
    chaos = Chaos([Slow(3, worker=0, for_seconds=60), Slow(2, worker=0)], clock=lambda: now[0])
    assert train(chaos) == Mishap(slow=6)
    now[0] = 159.9
    assert train(chaos) == Mishap(slow=6)
    now[0] = 160.0
    assert train(chaos) == Mishap(slow=2)
    assert chaos.in_force(4) == (Slow(2, worker=0),)


def test_rules_end_with_their_only_milestone() -> None:
    chaos = Chaos([Pause(3, worker=0, at=2), Pause(1, worker=0)])
    assert [train(chaos).pause for _ in range(4)] == [1, 4, 1, 1]
    assert chaos.in_force(4) == (Pause(1, worker=0),)


@given(slow=st.floats(1, 1000), pause=st.floats(0, 60), busy=st.floats(0, 1e6))
def test_a_delay_makes_it_so_many_times_longer_up_to_a_limit(
    slow: float, pause: float, busy: float
) -> None:
    delay = Mishap(slow, pause).delay(busy)
    assert 0 <= delay <= LONGEST
    assert delay == LONGEST or busy + delay == pytest.approx(slow * busy + pause)
    assert NOTHING.delay(busy) == 0


@given(slow=st.floats(1, 1000), pause=st.floats(0, 60), kill=st.booleans())
def test_a_mishap_survives_the_way_to_the_worker(slow: float, pause: float, kill: bool) -> None:
    mishap = Mishap(slow, pause, kill)
    settings = WorkerSettings(1, None, {}, mishap.to_json())
    body = encode_body(Proceed(Directive.GO, 0, settings))
    assert decode_body(*body) == Proceed(Directive.GO, 0, settings)
    assert as_mishap(settings.chaos) == mishap
    assert as_mishap({}) == NOTHING


def test_a_mishap_of_other_fields_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="Chaos: expected fields of"):
        as_mishap({"explode": True})


# -- mistakes and words -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Slow(0.5), "factor: expected 1 to 1000, got 0.5"),
        (lambda: Slow(1001), "factor: expected 1 to 1000"),
        (lambda: Slow(float("nan")), "factor"),
        (lambda: Slow("5"), "factor"),
        (lambda: Pause(-1), "seconds: expected a finite number above 0, got -1"),
        (lambda: Pause(61), "seconds: expected at most 60, got 61"),
        (lambda: Kill(worker=-1), "worker: expected a whole number of at least 0"),
        (lambda: Kill(worker=1, executor="0"), "worker, executor, any to say whom; got worker and"),
        (lambda: Kill(executor=0), "executor: expected Spark's id as text, such as '0'; got 0"),
        (lambda: Kill(any=0), "any: expected a whole number of at least 1"),
        (lambda: Kill(at=0), "at: expected a whole number of at least 1"),
        (lambda: Kill(at=True), "at: expected a whole number"),
        (lambda: Kill(at=1, probability=0.5), "Kill: expected one of at, probability to say when"),
        (lambda: Kill(probability=1.1), "probability: expected at most 1, got 1.1"),
        (lambda: Kill(probability=0), "probability: expected a finite number above 0"),
        (lambda: Slow(2, for_seconds=0), "for_seconds: expected a finite number above 0"),
    ],
)
def test_mistakes_are_named(make: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Slow(5, worker=1), "partition 1: 5 times slower"),
        (Slow(1.5, any=2, for_seconds=60), "2 drawn workers: 1.5 times slower, for at most 60 s"),
        (Pause(3, executor="2"), "executor 2: stands still for 3 s"),
        (Kill(worker=1, at=3), "partition 1: killed, at milestone 3, once"),
        (Kill(any=2), "2 drawn workers: killed, once each"),
        (Kill(executor="0"), "executor 0: killed, once each"),
        (Kill(probability=0.1), "1 drawn worker: killed, with probability 0.1, once"),
    ],
)  # fmt: skip
def test_rules_in_words(rule: Rule, text: str) -> None:
    assert str(rule) == text
    assert in_words([rule, Slow(2)]) == f"{text}; 1 drawn worker: 2 times slower"
