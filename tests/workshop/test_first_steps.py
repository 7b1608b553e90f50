"""The exercises of the first two notebooks: what is right is praised, what is wrong is seen."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.workshop.looks import hinted, praised

HISTORY = pd.DataFrame(
    {
        "partition": [0, 1, 0, 1],
        "compute": [2.0, 1.0, 1.0, 1.0],
        "wait": [0.0, 1.0, 0.5, 0.5],
        "exchange": [0.25, 0.25, 0.25, 0.25],
    }
)
COLUMNS = ["compute", "wait", "exchange"]
STEPS = {"a": 3, "b": 5, "c": 1, "d": 7, "e": 4}


def share(history: pd.DataFrame) -> Any:
    times = history.groupby("partition")[COLUMNS].sum()
    return times["compute"] / times.sum(axis=1)


def test_milestones() -> None:
    praised("first_steps.milestones", 36)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (None, "half of the images"),
        (18, "How many workers"),
        (180, "counts batches"),
        (40, "Divide"),
    ],
)
def test_milestones_hints(wrong: Any, words: str) -> None:
    hinted(words, "first_steps.milestones", wrong)


def test_interval() -> None:
    praised("first_steps.interval", 9)


@pytest.mark.parametrize(
    ("wrong", "words"), [(None, "90 batches"), (10, "makes 9"), (5, "Divide the 90")]
)
def test_interval_hints(wrong: Any, words: str) -> None:
    hinted(words, "first_steps.interval", wrong)


def test_computing() -> None:
    praised("first_steps.computing", share, HISTORY)
    praised("first_steps.computing", lambda history: [0.75, 0.5 - 0.0], HISTORY)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda history: None, "returns nothing"),
        (lambda history: history["compute"], "got shape (4,)"),
        (lambda history: history.groupby("partition")["compute"].sum(), "These are seconds"),
        (lambda history: [0.1, 0.2], "Divide compute"),
    ],
)
def test_computing_hints(wrong: Any, words: str) -> None:
    hinted(words, "first_steps.computing", wrong, HISTORY)


def test_traffic() -> None:
    praised("original.traffic", 62_800)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (None, "How many numbers"),
        (7850, "counts numbers"),
        (31_400, "What does it pull"),
        (62_720, "W alone"),
        (1, "All values"),
    ],
)
def test_traffic_hints(wrong: Any, words: str) -> None:
    hinted(words, "original.traffic", wrong)


def test_steps() -> None:
    praised("original.steps", STEPS)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (None, "Give a number"),
        ({"a": 1}, "Give a number"),
        (STEPS | {"b": None}, "No step yet for b"),
        (STEPS | {"c": 2, "d": 6}, "Look again at c, d"),
    ],
)
def test_steps_hints(wrong: Any, words: str) -> None:
    hinted(words, "original.steps", wrong)
