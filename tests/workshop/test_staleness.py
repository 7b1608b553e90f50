from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.workshop.looks import hinted, praised
from tos_notebook.combiners import PushInfo
from tos_notebook.theory import effective_rate, mean_staleness, stability_bound

Merge = Callable[[np.ndarray, np.ndarray, PushInfo], Any]


@pytest.mark.parametrize(
    ("task", "made"),
    [
        ("dynsgd", lambda center, update, push: center + update / (push.staleness + 1)),
        ("round", lambda n: (n, n * (1 / n))),
        ("rate", 0.8 * stability_bound(mean_staleness(8)) / stability_bound(0)),
        ("rate", 0.084),
    ],
)
def test_what_is_right_is_praised(task: str, made: object) -> None:
    praised(f"staleness.{task}", made)


@pytest.mark.parametrize(
    ("theirs", "hint"),
    [
        (lambda center, update, push: None, "let it return the new center"),
        (lambda center, update, push: update[0, 0], "Expected an array of shape (1, 3), got ()"),
        (lambda center, update, push: update / (push.staleness + 1), "what is there"),
        (lambda center, update, push: center + update / push.staleness, "counts in full"),
        (lambda center, update, push: center + update / push.workers, "counts in full"),
        (lambda center, update, push: center + update, "push.staleness has it"),
        (
            lambda center, update, push: center + update / (push.staleness + 1) ** 0.5,
            "At staleness 1 the share",
        ),
        (
            lambda center, update, push: center + update / max(1, push.staleness),
            "At staleness 1 the share",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_each_wrong_rule_gets_its_hint(theirs: Merge, hint: str) -> None:
    hinted(hint, "staleness.dynsgd", theirs)


@pytest.mark.parametrize(
    ("theirs", "hint"),
    [
        (lambda n: (None, None), "Return two numbers"),
        (lambda n: (n + 1, n), "both move by 1"),
        (lambda n: (1, 1), "downpour adds all"),
        (lambda n: (n, 1 / n), "what one push moves"),
        (lambda n: (n, n), "Which staleness has each"),
        (lambda n: (n, n / 2 + 0.5), "how many of them"),
    ],
)
def test_each_wrong_round_gets_its_hint(theirs: Callable[[int], Any], hint: str) -> None:
    hinted(hint, "staleness.round", theirs)


@pytest.mark.parametrize(
    ("theirs", "hint"),
    [
        (None, "rate is None"),
        (0.8, "one worker alone takes"),
        (effective_rate(0.8, 8), "too bold"),
        (stability_bound(7), "You do not know the curvature"),
        (0.8 * stability_bound(8) / 2, "One of the 8"),
        (0.01, "Take tos.theory.stability_bound"),
    ],
)
def test_each_wrong_rate_gets_its_hint(theirs: float | None, hint: str) -> None:
    hinted(hint, "staleness.rate", theirs)
