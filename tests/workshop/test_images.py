from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.workshop.looks import hinted, praised


def right_stopping(
    losses: Sequence[float], patience: int, limit: int = 0, tie: bool = False
) -> tuple[int, int]:
    """`limit` more epochs than the patience; `tie`: as good as the best is better."""
    best = 0
    for epoch, loss in enumerate(losses):
        if loss < losses[best] or (tie and loss == losses[best]):
            best = epoch
        if epoch - best >= patience + limit:
            return epoch, best
    return len(losses) - 1, best


def counts_all(losses: Sequence[float], patience: int) -> tuple[int, int]:
    best = waited = 0
    for epoch, loss in enumerate(losses[1:], 1):
        if loss < losses[best]:
            best = epoch
        else:
            waited += 1
        if waited >= patience:
            return epoch, best
    return len(losses) - 1, best


def looks_one_back(losses: Sequence[float], patience: int) -> tuple[int, int]:
    waited = 0
    for epoch in range(1, len(losses)):
        waited = 0 if losses[epoch] < losses[epoch - 1] else waited + 1
        if waited >= patience:
            return epoch, epoch - patience
    return len(losses) - 1, int(np.argmin(losses))


def right_confusion(right: np.ndarray, read: np.ndarray) -> np.ndarray:
    table = np.zeros((10, 10), int)
    for i, j in zip(right, read, strict=True):
        table[i, j] += 1
    return table


def counted_once(right: np.ndarray, read: np.ndarray) -> np.ndarray:
    table = np.zeros((10, 10), int)
    table[right, read] += 1
    return table


def shares(right: np.ndarray, read: np.ndarray) -> np.ndarray:
    table = right_confusion(right, read)
    return table / np.maximum(1, table.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("task", "made"),
    [
        ("parameters", lambda size, channels, filters: (size**2 * channels + 1) * filters),
        ("stopping", right_stopping),
        ("confusion", right_confusion),
        ("confusion", lambda *given: right_confusion(*given).tolist()),
    ],
)
def test_what_is_right_is_praised(task: str, made: object) -> None:
    praised(f"images.{task}", made)


@pytest.mark.parametrize(
    ("task", "theirs", "hint"),
    [
        ("parameters", lambda s, c, f: None, "returns None"),
        ("parameters", lambda s, c, f: s * s * c * f, "no bias"),
        ("parameters", lambda s, c, f: s * s * c * f + 1, "Each filter has its own"),
        ("parameters", lambda s, c, f: (s * s + 1) * f, "right for one channel"),
        ("parameters", lambda s, c, f: (s * s + 1) * c * f, "one bias for each channel"),
        ("parameters", lambda s, c, f: 608, "small numbers first"),
        ("stopping", lambda losses, patience: (None, None), "Return two numbers"),
        ("stopping", counts_all, "Only those in a row"),
        ("stopping", looks_one_back, "Compare with the best epoch"),
        ("stopping", lambda *given: right_stopping(*given, limit=1), "too late"),
        ("stopping", lambda losses, patience: (patience, 0), "another than 2"),
        (
            "stopping",
            lambda *given: (right_stopping(*given)[0], int(np.argmin(given[0]))),
            "never trained",
        ),
        (
            "stopping",
            lambda *given: right_stopping(*given) if len(given[0]) > 3 else None,
            "training is never stopped, and two numbers are missing",
        ),
        (
            "stopping",
            lambda *given: right_stopping(*given) if len(given[0]) > 3 else (3, 2),
            "goes to the end",
        ),
        ("stopping", lambda *given: right_stopping(*given, tie=True), "is not an improvement"),
        ("confusion", lambda right, read: None, "returns None"),
        ("confusion", lambda *given: right_confusion(*given)[:9], "got shape (9, 10)"),
        ("confusion", lambda right, read: right_confusion(read, right), "exchanged"),
        ("confusion", counted_once, "No count is above 1"),
        ("confusion", shares, "add up to 9"),
        ("confusion", lambda *given: np.roll(right_confusion(*given), 1), "wrong place"),
    ],
)
def test_each_wrong_way_gets_its_hint(task: str, theirs: Callable[..., Any], hint: str) -> None:
    hinted(hint, f"images.{task}", theirs)
