from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.workshop.looks import hinted, praised


def run(staleness: list[int], sync: str = "ssp:3") -> Any:
    """Return what looks like a run of two workers."""
    history = pd.DataFrame({"staleness": staleness, "workers": [2] * len(staleness)})
    return SimpleNamespace(history=history, settings=SimpleNamespace(sync=sync))


def right_waits(clocks: list[int], slack: int | None) -> list[int]:
    behind = min(clocks)
    return [w for w, c in enumerate(clocks) if slack is not None and c - behind > slack]


def right_seconds(compute: np.ndarray) -> tuple[float, float]:
    return compute.max(axis=0).sum(), compute.sum(axis=1).max()


def right_stalest(workers: int, slack: int) -> int:
    return (workers - 1) * (2 * slack + 1)


@pytest.mark.parametrize(
    ("task", "made"),
    [
        ("waits", (right_waits,)),
        ("seconds", (right_seconds,)),
        ("stalest", (right_stalest, run([0, 1, 5]))),
    ],
)
def test_what_is_right_is_praised(task: str, made: tuple[Any, ...]) -> None:
    praised(f"modes.{task}", *made)


@pytest.mark.parametrize(
    ("theirs", "hint"),
    [
        (lambda clocks, slack: None, "let it return a list"),
        (lambda clocks, slack: list(range(len(clocks))), "so none waits, in any mode"),
        (
            lambda clocks, slack: [c for c in clocks if c > min(clocks) + (slack or 0)],
            "numbers of workers, not clocks",
        ),
        (
            lambda clocks, slack: [
                w for w, c in enumerate(clocks) if c > min(clocks) and c - min(clocks) >= slack
            ],
            "as far ahead as the slack says",
        ),
        (
            lambda clocks, slack: [
                w for w, c in enumerate(clocks) if c == max(clocks) > min(clocks) + slack
            ][:1],
            "two workers wait",
        ),
        (
            lambda clocks, slack: right_waits(clocks, slack or 0),
            "None is asp",
        ),
    ],
)
def test_each_wrong_way_to_wait_gets_its_hint(theirs: Callable[..., Any], hint: str) -> None:
    hinted(hint, "modes.waits", theirs)


@pytest.mark.parametrize(
    ("theirs", "hint"),
    [
        (lambda c: (None, None), "has None"),
        (lambda c: (c.max(axis=0).sum(), c.sum()), "side by side"),
        (lambda c: (c.max(axis=0).sum(), c.max(axis=0).sum()), "asp: no worker waits"),
        (lambda c: (c.sum(axis=1).max(), c.sum(axis=1).max()), "slowest of *that* milestone"),
        (lambda c: (c.max() * c.shape[1], c.sum(axis=1).max()), "from barrier to barrier"),
    ],
)
def test_each_wrong_time_gets_its_hint(theirs: Callable[..., Any], hint: str) -> None:
    hinted(hint, "modes.seconds", theirs)


@pytest.mark.parametrize(
    ("theirs", "hint"),
    [
        (lambda n, s: None, "returns None"),
        (lambda n, s: 2 * s + 1, "One worker alone"),
        (lambda n, s: (n - 1) * 2 * s, "Begin with bsp"),
        (lambda n, s: (n - 1) * (s + 1), "when you pulled"),
        (lambda n, s: (n - 1) * (s + 1) ** 2, "from the one to the other"),
        (lambda n, s: (2 * s + 1) * (n > 1), "each of the others"),
    ],
)
def test_each_wrong_bound_gets_its_hint(theirs: Callable[..., Any], hint: str) -> None:
    hinted(hint, "modes.stalest", theirs, run([0, 1, 5]))


@pytest.mark.parametrize(
    ("measured", "hint"),
    [
        (run([0, 1], "asp"), "none of a bounded mode"),
        (run([]), "none of a bounded mode"),
        (run([0, 8]), "a staleness of 8, more than 7"),
    ],
)
def test_the_right_bound_is_held_against_a_run(measured: Any, hint: str) -> None:
    hinted(hint, "modes.stalest", right_stalest, measured)


@pytest.mark.parametrize("slack", [0, 1, 3])
@pytest.mark.parametrize("workers", [2, 3])
def test_the_bound_is_reached_and_never_passed(workers: int, slack: int) -> None:
    """Worker 0 pulls when the others are as far behind as it may leave them, and is overtaken."""
    clocks = [slack, *[0] * (workers - 1)]
    assert not right_waits(clocks, slack)
    missed = 0
    while ready := [w for w in range(1, workers) if w not in right_waits(clocks, slack)]:
        clocks[ready[0]] += 1
        missed += 1
    assert missed == right_stalest(workers, slack)
