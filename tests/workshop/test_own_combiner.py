"""The exercises about combiners: what is right is praised, what is wrong is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.workshop.looks import hinted, praised
from tos_notebook.combiners import Combiner, DynSGD, PushInfo, StatefulCombiner, TensorCombiner

Rule = Callable[[Any, Any, PushInfo], Any]


def test_damped() -> None:
    praised("own_combiner.damped", lambda c, u, p: c + u / np.sqrt(p.staleness + 1))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda c, u, p: None, "returns nothing"),
        (lambda c, u, p: c.sum(), "of the center's shape"),
        (lambda c, u, p: c + u / np.sqrt(p.staleness), "quite fresh"),
        (lambda c, u, p: c + u / p.staleness**0.5, "quite fresh"),
        (lambda c, u, p: u / np.sqrt(p.staleness + 1), "That is the change"),
        (lambda c, u, p: c - u, "added as it is"),
        (lambda c, u, p: c + u, "use push.staleness"),
        (lambda c, u, p: c + u / (p.staleness + 1), "dynsgd"),
        (lambda c, u, p: c + u / np.sqrt(max(1, p.staleness)), "under the root"),
        (lambda c, u, p: (c + u) / np.sqrt(p.staleness + 1), "center itself shrinks"),
        (lambda c, u, p: c + u / (1 + p.staleness / 3), "is to count half"),
    ],
)
def test_damped_hints(wrong: Rule, words: str) -> None:
    hinted(words, "own_combiner.damped", wrong)


def test_damped_has_to_keep_the_laws() -> None:
    """Right for what is asked, and not for all that a server asks."""

    def moves_by_itself(c: Any, u: Any, p: PushInfo) -> Any:
        return c + u / np.sqrt(p.staleness + 1) + (0.0 if p.pushes == 10 else 1.0)

    hinted("an unchanged push", "own_combiner.damped", moves_by_itself)


def test_capped() -> None:
    praised("own_combiner.capped", lambda c, u, p: c + np.clip(u, -0.1, 0.1))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda c, u, p: c + u, "nothing is limited"),
        (lambda c, u, p: np.clip(u, -0.1, 0.1), "That is the limited change"),
        (lambda c, u, p: np.clip(c + u, -0.1, 0.1), "limits the center's values"),
        (lambda c, u, p: c + np.minimum(u, 0.1), "moves down are not"),
        (lambda c, u, p: c + u * 0.1 / np.abs(u).max(), "scales the whole change"),
        (lambda c, u, p: c + np.clip(u, -0.2, 0.2), "the center is to move by"),
    ],
)
def test_capped_hints(wrong: Rule, words: str) -> None:
    hinted(words, "own_combiner.capped", wrong)


class Momentum(StatefulCombiner):
    def reset(self, like: Any) -> None:
        self.velocity = np.zeros_like(like)

    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        self.velocity *= 0.5
        self.velocity += update
        center += self.velocity
        update[...] = center


class WithoutState(Momentum):
    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        center += update
        update[...] = center


class Forever(Momentum):
    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        self.velocity += update
        center += self.velocity
        update[...] = center


class ElsewhereMoved(Momentum):
    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        center = center + update


class SaysNothing(Momentum):
    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        center += update


class HalfFirst(Momentum):
    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        center += update / 2
        update[...] = center


class Weaker(Momentum):
    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        self.velocity *= 0.2
        super().merge(center, update, push)


class Leaky(Combiner):
    """Right in its first run."""

    def __init__(self) -> None:
        self.velocity: dict[int, Any] = {}

    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        self.velocity[center.size] = 0.5 * self.velocity.get(center.size, 0 * update) + update
        center += self.velocity[center.size]
        update[...] = center


class Weights(TensorCombiner):
    def compute(self, origin: Any, new: Any, worker: int = -1, name: Any = None) -> Any:
        return new


@pytest.mark.parametrize("rule", [Momentum, Momentum()])
def test_momentum(rule: Any) -> None:
    praised("own_combiner.momentum", rule)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Weights, "push changes"),
        (ElsewhereMoved, "in place"),
        (SaysNothing, "update[...] = center"),
        (HalfFirst, "The first push"),
        (WithoutState, "by its own change alone"),
        (lambda c, u, p: c + u, "by its own change alone"),
        (DynSGD, "by its own change alone"),
        (Forever, "all of the first one"),
        (Weaker, "the second one to move"),
        (Leaky, "state does not leak"),
        (Momentum.reset, "CombinerError"),
    ],
)
def test_momentum_hints(wrong: Any, words: str) -> None:
    hinted(words, "own_combiner.momentum", wrong)
