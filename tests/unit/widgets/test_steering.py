from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.support.settings import SAMPLED, TOGETHER
from tests.unit.telemetry.samples import started
from tests.unit.widgets.support import FACTS, FakeRun
from tos_notebook.chaos import Kill, Slow
from tos_notebook.steering.source import source
from tos_notebook.strategies import AllReduce, TreeAggregate
from tos_notebook.widgets.control import Steering
from tos_notebook.widgets.facts import RunFacts
from tos_notebook.widgets.model import RunModel


class Desk:
    """A run and who steers it."""

    def __init__(self) -> None:
        self.run = FakeRun()
        self.model = RunModel()
        self.model(started())
        self.steering = Steering(RunFacts(self.run), self.model)  # type: ignore[arg-type]

    def ask(self, command: Any, arguments: Any = None) -> tuple[bool, str]:
        answer = self.steering(
            {"type": "command", "id": 3, "command": command, "arguments": arguments}
        )
        assert (answer["type"], answer["id"]) == ("answer", 3)
        return answer["ok"], answer["when" if answer["ok"] else "text"]

    @property
    def refused(self) -> list[tuple[str, str]]:
        commands = self.model.snapshot(1.0, FACTS).state["commands"]
        return [(c["command"], c["detail"]) for c in commands if c["stage"] == "refused"]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize(
    ("command", "arguments", "told", "when"),
    [
        ("pause", {}, ("pause",), "milestone"),
        ("pause", None, ("pause",), "milestone"),
        ("unpause", {}, ("unpause",), "now"),
        ("stop", {}, ("stop",), "milestone"),
        ("repartition", {"partitions": 4}, ("repartition", 4), "epoch"),
        ("swap combiner", {"combiner": "easgd"}, ("swap combiner", "easgd"), "milestone"),
        ("swap strategy", {"strategy": "allreduce"}, ("swap strategy", AllReduce()), "epoch"),
        ("set", {"learning_rate": 0.1}, ("set", {"learning_rate": 0.1}), "milestone"),
        ("set", {"sync": "bsp"}, ("set", {"sync": "bsp"}), "milestone"),
        (
            "chaos",
            {"what": "slow", "amount": 5, "worker": 1, "for_seconds": 60},
            ("chaos", Slow(5, worker=1, for_seconds=60)),
            "milestone",
        ),
        ("chaos", {"what": "kill", "executor": "0"}, ("chaos", Kill(executor="0")), "milestone"),
        ("chaos", {"what": "off"}, ("chaos",), "milestone"),
        (
            "set",
            {"learning_rate": 0.1, "sync_interval": 20},
            ("set", {"learning_rate": 0.1, "sync_interval": 20}),
            "milestone",
        ),
    ],
)
def test_a_command_reaches_the_run_and_is_answered(
    desk: Desk, command: str, arguments: Any, told: tuple[Any, ...], when: str
) -> None:
    assert desk.ask(command, arguments) == (True, when)
    assert desk.run.told == [told]


def test_the_run_knows_that_a_view_asked(desk: Desk) -> None:
    found: list[str] = []
    desk.run.pause = lambda: found.append(source())  # type: ignore[method-assign]
    assert desk.ask("pause") == (True, "milestone")
    assert (found, source()) == (["view"], "Python")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("explode", {}),
        (None, {}),
        (["pause"], {}),
        ("pause", {"why": 1}),
        ("set", {}),
        ("set", {"batch_size": 5}),
        ("repartition", {}),
        ("repartition", [4]),
        ("swap combiner", {"combiner": "easgd", "more": 1}),
        ("chaos", {}),
        ("chaos", {"what": "explode"}),
        ("chaos", {"what": "slow", "worker": 1}),
        ("chaos", {"what": "kill", "times": 100}),
    ],
)
def test_what_is_no_command_is_refused_and_does_nothing(
    desk: Desk, command: Any, arguments: Any
) -> None:
    ok, text = desk.ask(command, arguments)
    assert not ok
    assert "expected" in text.lower()
    assert desk.run.told == []


def test_the_runs_own_refusal_is_the_answer_and_is_noted_for_all_views(desk: Desk) -> None:
    desk.ask("pause")
    ok, text = desk.ask("pause")
    assert (ok, text) == (
        False,
        "Cannot pause while the run is paused: it is paused already.",
    )
    assert desk.refused == [("pause", text)]


def test_an_unknown_combiner_is_answered_with_the_known_ones(desk: Desk) -> None:
    ok, text = desk.ask("swap combiner", {"combiner": "easdg"})
    assert not ok
    assert "Did you mean easgd" in text


def test_whatever_goes_wrong_is_answered(desk: Desk) -> None:
    desk.run.stopping = lambda: {}["missing"]
    ok, text = desk.ask("stop")
    assert (ok, text) == (False, "KeyError: 'missing'")


def test_a_stop_is_answered_before_it_is_done(desk: Desk) -> None:
    gate, failed = threading.Event(), threading.Event()
    refused = desk.model.refused

    def note(*what: Any) -> None:
        refused(*what)
        failed.set()

    def stop() -> None:
        gate.wait(10)
        raise TimeoutError("did not end")

    desk.run.stopping = stop
    desk.model.refused = note  # type: ignore[method-assign]
    assert desk.ask("stop") == (True, "milestone")
    assert desk.refused == []
    gate.set()
    assert failed.wait(10)
    assert desk.refused == [("stop", "did not end")]


def test_chaos_is_a_fact_while_it_is_on_and_in_no_run_that_is_over(desk: Desk) -> None:
    facts = RunFacts(desk.run)  # type: ignore[arg-type]
    assert (facts()["chaos"], facts()["chaos_log"]) == ([], [])
    desk.run.chaos_log = (Slow(5, worker=1),)
    desk.run.settings = replace(desk.run.settings, chaos=desk.run.chaos_log)
    assert facts()["chaos"] == facts()["chaos_log"] == ["partition 1: 5 times slower"]
    del desk.run
    assert (facts()["chaos"], facts()["chaos_log"]) == ([], ["partition 1: 5 times slower"])


def test_a_run_that_nobody_holds_is_over(desk: Desk) -> None:
    del desk.run
    ok, text = desk.ask("pause")
    assert not ok
    assert "has ended" in text


def test_the_programs_own_learning_rate_is_told_and_the_one_before_the_present_one() -> None:
    run: Any = FakeRun()
    facts = RunFacts(run)
    rates = ("learning_rate", "own_rate", "rate_before")
    assert [facts()[name] for name in rates] == [None, 0.001, None]  # type: ignore[literal-required]
    for rate in (0.1, 1000):
        run.settings = replace(run.settings, learning_rate=rate)
        found = facts()
    assert [found[name] for name in rates] == [1000, 0.001, 0.1]  # type: ignore[literal-required]
    # It is told until another takes its place.
    assert facts()["rate_before"] == 0.1
    run.settings = SAMPLED
    assert facts()["own_rate"] is None


def test_a_view_is_told_whether_there_will_be_validations() -> None:
    run: Any = FakeRun()
    facts = RunFacts(run)
    assert facts()["validates"] is False
    run.validates = True
    assert facts()["validates"] is True


def test_of_steps_made_together_neither_combiner_nor_sync_mode_is_offered() -> None:
    run: Any = FakeRun()
    run.settings, run.commands = TOGETHER, AllReduce.commands
    facts = RunFacts(run)
    forms = {action["name"]: action["arguments"] for action in facts()["actions"]}  # type: ignore[index]
    assert "swap combiner" not in forms
    names = [argument["name"] for argument in forms["set"]]  # type: ignore[attr-defined]
    assert names == ["sync_interval", "codec", "learning_rate"]
    assert (facts()["combiner"], facts()["lockstep"]) == (None, True)
    assert facts()["strategy"] == "allreduce (of gradients, algorithm ring, chosen by auto)"


def test_where_workers_exchange_once_in_an_epoch_no_interval_is_offered() -> None:
    run: Any = FakeRun()
    run.settings, run.commands = SAMPLED, TreeAggregate.commands
    facts = RunFacts(run)()
    forms = {action["name"]: action["arguments"] for action in facts["actions"]}
    names = [argument["name"] for argument in forms["set"]]  # type: ignore[attr-defined]
    assert names == ["codec", "learning_rate"]
    assert facts["sync_interval"] is None
