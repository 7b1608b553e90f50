"""The exercises of "One gradient, four ways": right answers are praised, wrong ones are seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.workshop.looks import hinted, praised


def test_busiest() -> None:
    praised("one_gradient.busiest", lambda n, size: (2 * n * size, 4 * (n - 1) / n * size))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda n, size: (None, None), "Return two numbers"),
        (lambda n, size: None, "Return two numbers"),
        (lambda n, size: (2 * size, 0), "the link of one worker"),
        (lambda n, size: (n * size, 0), "one direction"),
        (lambda n, size: (size, 0), "those that go out"),
        (lambda n, size: (2 * n * size, 2 * (n - 1) / n * size), "How much does it receive"),
        (lambda n, size: (2 * n * size, 4 * (n - 1) * size), "the sum of all links"),
        (lambda n, size: (2 * n * size, 4 * size), "a part is 1/n"),
    ],
)
def test_busiest_hints(wrong: Callable[[int, int], Any], words: str) -> None:
    hinted(words, "one_gradient.busiest", wrong)


def largest(values: Any, by: Any, count: int) -> Any:
    sent = np.zeros_like(values)
    places = np.argsort(by)[len(by) - count :]
    sent[places] = values[places]
    return sent


def right(change: Any, kept: Any, count: int) -> Any:
    total = change + kept
    sent = largest(total, np.abs(total), count)
    return sent, total - sent


def test_feedback() -> None:
    praised("one_gradient.feedback", right)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda c, k, n: (None, None), "Return two arrays"),
        (lambda c, k, n: None, "Return two arrays"),
        (lambda c, k, n: (c[:2], k[:2]), "not sent is 0"),
        (lambda c, k, n: (c, k), "Expected 2 values"),
        (lambda c, k, n: (largest(c, np.abs(c), n), k), "Add what was kept"),
        (lambda c, k, n: (largest(c + k, c + k, n), k), "without their signs"),
        (lambda c, k, n: (largest(c + k, -np.abs(c + k), n), k), "Send the two that are largest"),
        (lambda c, k, n: (right(c, k, n)[0], 0 * k), "Nothing is kept"),
        (lambda c, k, n: (right(c, k, n)[0], c - right(c, k, n)[0]), "must add up"),
    ],
)
def test_feedback_hints(wrong: Callable[..., Any], words: str) -> None:
    hinted(words, "one_gradient.feedback", wrong)


def test_pays() -> None:
    praised("one_gradient.pays", lambda n, c, p, w, a: c / n + 2 * (n - 1) * (p / n / w + a))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda n, c, p, w, a: None, "returns nothing"),
        (lambda n, c, p, w, a: c / n + 2 * n * (p / n / w + a), "One worker computes"),
        (lambda n, c, p, w, a: c + 2 * (n - 1) * (p / n / w + a), "share the batch"),
        (lambda n, c, p, w, a: c / n + 2 * (n - 1) * (p / w + a), "sends one part"),
        (lambda n, c, p, w, a: c / n + 2 * (n - 1) * p / n / w, "latency is missing"),
        (lambda n, c, p, w, a: c / n + (n - 1) * (p / n / w + a), "2(n - 1) rounds"),
    ],
)
def test_pays_hints(wrong: Callable[..., Any], words: str) -> None:
    hinted(words, "one_gradient.pays", wrong)
