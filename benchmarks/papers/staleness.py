"""Accuracy of the rules after five epochs of the MNIST 2NN, by workers and milestone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from statistics import mean

from tos_notebook.combiners import Combiner, FedBuff, get

from ..lib.harness import Row
from ..lib.models import TWO_NN
from .asynchronous import Outcome, train
from .networks import Mnist, Network
from .report import Options, row, say

EPOCHS = 5
Cell = tuple[int, int]
"""Workers, steps of a milestone."""

EXPECTED: Mapping[Cell, Mapping[str, float]] = {
    (1, 1): {"downpour": 97.8},
    (10, 1): {"downpour": 97.7, "dynsgd": 96.5},
    (20, 1): {"downpour": 97.3, "dynsgd": 95.6},
    (10, 10): {
        "downpour": 95.7,
        "dynsgd": 96.6,
        "adag": 95.2,
        "fedasync": 95.6,
        "fedbuff": 95.7,
        "updatemean": 95.2,
        "easgd": 94.8,
        "mean": 94.0,
    },
    (20, 10): {
        "downpour": 78.4,
        "dynsgd": 95.2,
        "adag": 94.4,
        "fedasync": 94.2,
        "fedbuff": 93.8,
        "updatemean": 93.3,
        "easgd": 92.7,
        "gapaware": 92.4,
        "mean": 92.0,
    },
}
"""Percent, each with a single seed, of a simulation without this server."""

WITH_MOMENTUM = "fedbuff with momentum"
"""Besides: FedBuff with the server momentum of other implementations, η = 0.7 and μ = 0.9."""

COLLAPSE = 10.0
"""Points by which Downpour must fall behind DynSGD at 20 workers and 10 steps."""
STALENESS = 0.1
"""Share of n - 1 by which the mean staleness may be off."""


def combiner(rule: str) -> Combiner:
    """Return a rule with its defaults, or the one that is measured besides."""
    return FedBuff(lr=0.7, momentum=0.9) if rule == WITH_MOMENTUM else get(rule)


def pairs_in_order(expected: Mapping[str, float], found: Mapping[str, float]) -> tuple[int, int]:
    """Return how many pairs of rules are in the expected order, and of how many.

    Pairs that are expected to be equal do not count.
    """
    signs = [
        (expected[a] - expected[b]) * (found[a] - found[b])
        for a, b in itertools.combinations(expected, 2)
        if expected[a] != expected[b]
    ]
    return sum(sign > 0 for sign in signs), len(signs)


def accuracy_row(cell: Cell, rule: str, outcomes: list[Outcome]) -> Row:
    """Return a rule's mean accuracy in one cell."""
    workers, interval = cell
    staleness = mean(o.staleness for o in outcomes)
    return row(
        f"2NN, n={workers}, H={interval}: {rule}",
        mean(o.accuracy for o in outcomes),
        "%",
        published=str(EXPECTED[cell].get(rule, "")),
        setup=f"{EPOCHS} epochs, B=128, Adam 1e-3, mean staleness {staleness:.2f}",
        each=" ".join(f"{o.accuracy:.2f}" for o in outcomes),
    )


def order_row(cell: Cell, found: Mapping[str, float]) -> Row:
    """Return how much of the expected order of the rules was found in one cell."""
    workers, interval = cell
    same, pairs = pairs_in_order(EXPECTED[cell], found)
    return row(
        f"2NN, n={workers}, H={interval}: pairs of rules in order",
        same,
        "pairs",
        published=str(pairs),
        setup=" > ".join(sorted(EXPECTED[cell], key=lambda rule: -found[rule])),
        goal=str(pairs),
        within=same == pairs,
    )


def staleness_row(cell: Cell, outcomes: list[Outcome]) -> Row:
    """Return the mean staleness of all trainings in one cell."""
    workers, interval = cell
    found = mean(o.staleness for o in outcomes)
    return row(
        f"2NN, n={workers}, H={interval}: mean staleness",
        found,
        "",
        published=f"{workers - 1} (n - 1)",
        setup="all rules and seeds, after 5 n pushes",
        goal=f"{workers - 1} ± {STALENESS:.0%}",
        within=abs(found - (workers - 1)) <= STALENESS * (workers - 1),
    )


def collapse_row(found: Mapping[str, float]) -> Row:
    """Return how far Downpour is behind DynSGD in the hardest cell."""
    expected = EXPECTED[20, 10]
    points = found["downpour"] - found["dynsgd"]
    return row(
        "2NN, n=20, H=10: downpour minus dynsgd",
        points,
        "points",
        published=f"{expected['downpour'] - expected['dynsgd']:.1f}",
        setup="as above",
        goal=f"<= -{COLLAPSE:g}",
        within=points <= -COLLAPSE,
    )


def measure(options: Options) -> Iterator[Row]:
    """Train every rule in every cell with every seed."""
    data = Mnist()
    network = Network(TWO_NN, "Adam", data.train)
    for cell, expected in EXPECTED.items():
        every, found = [], {}
        for rule in [*expected, *([WITH_MOMENTUM] if "fedbuff" in expected else [])]:
            outcomes = [
                train(network, data, combiner(rule), *cell, EPOCHS, seed)
                for seed in range(options.seeds)
            ]
            say(f"staleness {cell} {rule}: {outcomes}")
            every += outcomes
            found[rule] = mean(o.accuracy for o in outcomes)
            yield accuracy_row(cell, rule, outcomes)
        if len(expected) > 1:
            yield order_row(cell, found)
            yield staleness_row(cell, every)
    yield collapse_row(found)
