"""An interval is chosen by what batches and exchanges take, said, and left to who sets another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.telemetry.samples import milestone, started
from tos_notebook.errors import ConfigError
from tos_notebook.events import CommandAccepted
from tos_notebook.telemetry.history import History
from tos_notebook.theory.interval import shortest_interval
from tos_notebook.training.observers.interval import LEAST, MOST, IntervalChooser
from tos_notebook.training.options import SessionOptions

LIMIT = 10.0


class Chosen:
    """A chooser of a fake run, of which a test tells milestones."""

    def __init__(self, interval: int = 10) -> None:
        self.history = History()
        self.settings = SimpleNamespace(sync_interval=interval, batch_size=10)
        self.set_to: list[int] = []
        context: Any = SimpleNamespace(run=self, paces=self.history.paces)
        self.chooser = IntervalChooser(context)
        self._time = 0.0

    def set(self, sync_interval: int) -> None:
        self.set_to.append(sync_interval)
        self.settings.sync_interval = sync_interval
        self.tell(CommandAccepted(0.0, "set", "", {"sync_interval": str(sync_interval)}))

    def tell(self, event: Any) -> None:
        self.history(event)
        self.chooser(event)

    def train(self, batch: float, exchange: float, milestones: int = LEAST) -> None:
        """Let two workers train by the present interval."""
        steps = self.settings.sync_interval
        for number in range(milestones):
            self._time += (steps * batch + exchange) / 2
            known = {"compute": steps * batch, "exchange": exchange, "wait": 0.0, "steps": steps}
            self.tell(milestone(self._time, partition=number % 2, **known))
        assert self.chooser._executor.settle(LIMIT)


@pytest.fixture
def chosen() -> Iterator[Callable[..., Chosen]]:
    made: list[Chosen] = []

    def make(**given: Any) -> Chosen:
        made.append(Chosen(**given))
        return made[-1]

    yield make
    for each in made:
        each.chooser.finish(last=True)


def test_exchanges_are_to_take_a_tenth_of_the_time() -> None:
    assert shortest_interval(batch=0.01, exchange=0.1) == 90
    assert shortest_interval(batch=1.0, exchange=0.001) == 1


def test_the_shortest_interval_is_set_and_a_note_says_why(chosen: Callable[..., Chosen]) -> None:
    run = chosen()
    run.train(0.01, 0.1, LEAST - 1)
    assert (run.set_to, run.chooser.notes) == ([], ())
    run.train(0.01, 0.1, 1)
    assert run.set_to == [90]
    (note,) = run.chooser.notes
    assert note.startswith(
        "sync_interval='auto' has chosen 90: a batch takes 10 ms and an exchange "
    )
    assert "exchanges take 10 % of the time" in note


def test_it_measures_again_and_ends_when_nothing_changes(chosen: Callable[..., Chosen]) -> None:
    """With fewer exchanges a crowded link is faster."""
    run = chosen()
    run.train(0.01, 0.1)
    run.train(0.01, 0.05)
    assert run.set_to == [90, 45]
    run.train(0.01, 0.04)
    assert run.set_to == [90, 45]
    assert "has chosen 45" in run.chooser.notes[0]
    run.train(0.01, 1.0)
    assert run.set_to == [90, 45]


def test_an_interval_that_is_good_stays(chosen: Callable[..., Chosen]) -> None:
    run = chosen()
    run.train(0.01, 0.01)
    assert run.set_to == []
    assert "has chosen 10" in run.chooser.notes[0]


def test_an_interval_that_is_a_little_short_is_made_longer_once(
    chosen: Callable[..., Chosen],
) -> None:
    """What the note says that exchanges take is then what it says is wanted."""
    run = chosen()
    run.train(0.01, 0.0163)
    assert run.set_to == [15]
    assert "has chosen 15" in run.chooser.notes[0]
    assert "exchanges take 10 % of the time" in run.chooser.notes[0]
    run.train(0.01, 0.0185)
    assert run.set_to == [15]


def test_it_is_no_longer_than_an_epoch(chosen: Callable[..., Chosen]) -> None:
    run = chosen(interval=5)
    run.tell(started(samples=400))
    run.train(0.01, 10.0)
    assert run.set_to == [20]
    assert "It chooses at most" in run.chooser.notes[0]
    unknown = chosen()
    unknown.tell(started(samples=None))
    unknown.train(1e-6, 10.0)
    assert unknown.set_to == [MOST]


def test_what_the_user_sets_stays(chosen: Callable[..., Chosen]) -> None:
    run = chosen()
    run.tell(CommandAccepted(0.0, "set", "", {"sync_interval": "3"}))
    run.train(0.01, 0.1)
    assert run.set_to == []


@pytest.mark.parametrize("strategy", ["allreduce", "treeaggregate", "tensorflow"])
def test_where_all_make_each_step_together_there_is_nothing_to_choose(strategy: str) -> None:
    with pytest.raises(ConfigError, match="sync_interval: expected a number with strategy"):
        SessionOptions(strategy=strategy, sync_interval="auto").checked()


def test_another_combiner_of_a_session_leaves_the_choice() -> None:
    checked = SessionOptions(sync_interval="auto").checked()
    assert (checked.sync_interval, checked.chooses_interval) == (10, True)
    assert checked.checked().chooses_interval
    assert not SessionOptions().checked().chooses_interval
    with pytest.raises(ConfigError, match=r"sync_interval: expected a whole number .*or 'auto'"):
        SessionOptions(sync_interval="often").checked()
