"""The exercises about stragglers and failures: what is right is praised, what is wrong is seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from tests.workshop.looks import hinted, praised
from tos_notebook.chaos import Kill, Slow


def test_rate() -> None:
    praised("stragglers.rate", 0.9, 0.2)
    praised("stragglers.rate", 7.2 / 8, 1 / 5)


@pytest.mark.parametrize(
    ("asp", "bsp", "words"),
    [
        (None, 0.2, "Give two numbers"),
        (7.2, 0.2, "divide by"),
        (0.875, 0.2, "still makes"),
        (0.2, 0.2, "no worker waits here"),
        (0.5, 0.2, "asp: add up"),
        (0.9, 0.9, "wait for the slow one"),
        (0.9, 0.125, "all eight make"),
        (0.9, 0.6, "how long"),
    ],
)
def test_rate_hints(asp: Any, bsp: Any, words: str) -> None:
    hinted(words, "stragglers.rate", asp, bsp)


def test_resume() -> None:
    praised("stragglers.resume", 35)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (None, "Which of its milestones"),
        (40, "did the server hear"),
        (7, "number of milestones"),
        (0, "not trained again"),
        (34, "Nearly"),
        (280, "counts images"),
        (3, "Count the batches"),
    ],
)
def test_resume_hints(wrong: Any, words: str) -> None:
    hinted(words, "stragglers.resume", wrong)


class Forgetful:
    def __init__(self) -> None:
        self.total = 0
        self.seen: set[Any] = set()

    def push(self, epoch: int, partition: int, sequence: int, change: int) -> None:
        name = self.name(epoch, partition, sequence, change)
        if name not in self.seen:
            self.seen.add(name)
            self.total += change

    def name(self, *push: int) -> Any:
        return object()


class Careful(Forgetful):
    def name(self, *push: int) -> Any:
        return push[:3]


class BySequence(Forgetful):
    def name(self, *push: int) -> Any:
        return push[2]


class ByChange(Forgetful):
    def name(self, *push: int) -> Any:
        return push[1], push[3]


class WithoutEpoch(Forgetful):
    def name(self, *push: int) -> Any:
        return push[1:3]


class Shared(Careful):
    common: Any

    def __init__(self) -> None:
        super().__init__()
        self.seen = type(self).common


def test_once() -> None:
    praised("stragglers.once", Careful)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Forgetful, "from 12 to 17"),
        (BySequence, "distinguish their pushes"),
        (ByChange, "same number"),
        (WithoutEpoch, "next epoch"),
        (Shared, "its own memory"),
    ],
)
def test_once_hints(wrong: Any, words: str) -> None:
    Shared.common = set()
    hinted(words, "stragglers.once", wrong)


def ended(**changes: Any) -> Any:
    """Return what the exercise looks at of a run; two epochs, three attempts lost."""
    facts = {
        "active": False,
        "state": "finished",
        "chaos_log": (Slow(2), Kill(any=2), Kill(at=9)),
        "workers": pd.DataFrame({"lost": [1, 2]}),
        "history": pd.DataFrame({"epoch": [0, 0, 1], "samples": [3, 4, 7]}),
        "status": SimpleNamespace(epochs=2),
    }
    return SimpleNamespace(**facts | changes)


def test_survive() -> None:
    praised("stragglers.survive", ended())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (None, "Start a run"),
        (ended(active=True), "still trains"),
        (ended(state="failed"), "more than three times"),
        (ended(chaos_log=(Slow(2),)), "No rule of this run kills a worker"),
        (ended(workers=pd.DataFrame({"lost": [1, 1]})), "expected at least 3"),
        (ended(history=pd.DataFrame({"epoch": [0, 1], "samples": [6, 7]})), "as many in each"),
        (ended(status=SimpleNamespace(epochs=3)), "as many in each"),
    ],
)
def test_survive_hints(wrong: Any, words: str) -> None:
    hinted(words, "stragglers.survive", wrong)
