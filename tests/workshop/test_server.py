"""The exercises about the parameter server: what is right is praised, what is wrong is seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.workshop.looks import hinted, praised

# Who pushes when; worker 1 comes late.
PARTITIONS = [0, 0, 1, 0, 1, 1, 0]
HISTORY = pd.DataFrame(
    {
        "partition": PARTITIONS,
        "version": np.arange(1, len(PARTITIONS) + 1),
        "staleness": [0, 0, 2, 1, 1, 0, 2],
    }
)


def test_stale() -> None:
    praised("server.stale", 3)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [(None, "Go through"), (2, "by each push"), (4, "A's own push"), (6, "pull changes"), (1, "")],
)
def test_stale_hints(wrong: Any, words: str) -> None:
    hinted(words, "server.stale", wrong)


def own_versions(history: pd.DataFrame) -> Any:
    return history.groupby("partition")["version"].diff()


def test_recount() -> None:
    praised("server.recount", lambda history: own_versions(history) - 1, HISTORY)
    filled = [0, 0, 0, 1, 1, 0, 2]  # a list, and something for the first milestones
    praised("server.recount", lambda history: filled, HISTORY)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda history: None, "returns nothing"),
        (lambda history: [1.0], "got shape (1,)"),
        (own_versions, "too large by one"),
        (lambda history: history["version"].diff() - 1, "no matter which worker sent that"),
        (lambda history: history["version"].diff(), "no matter which worker sent that"),
        (lambda history: own_versions(history).clip(upper=2) - 1, "1 of 5 differ"),
        (lambda history: history["staleness"], "KeyError: 'staleness'"),
    ],
)
def test_recount_hints(wrong: Any, words: str) -> None:
    hinted(words, "server.recount", wrong, HISTORY)


def test_traffic() -> None:
    praised("server.traffic", 2 * 5 * 2 * 2600)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (None, "How many batches"),
        (52, "in kB"),
        (5 * 2600, "two workers"),
        (2 * 5 * 2600, "the way back"),
        (9 * 2 * 2600, "half of one"),
        (36 * 2 * 2600, "every 5 batches"),
        (1437, "all parameters up"),
    ],
)
def test_traffic_hints(wrong: Any, words: str) -> None:
    hinted(words, "server.traffic", wrong)
