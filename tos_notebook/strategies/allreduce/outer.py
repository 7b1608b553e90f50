"""The outer optimizer: how parameters move by the mean of the workers' changes.

Each worker applies the rule to the same mean, so that all hold the same bits. Its state is part of
the copy that the driver holds, as the state of a program's optimizer is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...combiners.adaptive import FedAdam, FedYogi
from ...combiners.arithmetic import widen_delta
from ...combiners.averaging import AveragingCombiner, FedAvg, OuterMomentum
from ...combiners.base import Combiner
from ...combiners.robust import Median, MultiKrum, RobustCombiner, TrimmedMean
from ...common.arrays import Array
from ...errors import CheckpointError, ConfigError, RemoteProtocolError
from ...layout import Layout
from ...persist.described import describe, rebuild

STEPS = FedAvg, OuterMomentum, FedAdam, FedYogi
"""Rules that take one step on the change of a round."""

ROBUST = Median, TrimmedMean
"""Rules that make that change of those of all workers; else it is their mean."""

KINDS = {kind.name: kind for kind in (*STEPS, *ROBUST)}
"""What workers can be told by name."""

PLAIN_MEAN = FedAvg()
"""Moves parameters by the mean change itself."""

NAMES = "fedavg, diloco, slowmo, bmuf, fedadam, fedyogi, median and trimmedmean"
"""The same, and presets of them, as a user knows them."""


def check_outer(rule: Combiner) -> None:
    """Check that workers can apply a rule to the changes of an exchange.

    Parameters
    ----------
    rule : Combiner

    Raises
    ------
    ConfigError
        They cannot.
    """
    if isinstance(rule, MultiKrum):
        raise ConfigError(
            "combiner: expected a rule that looks at each parameter by itself with strategy "
            f"'allreduce', where each worker merges a part of the model; got {rule!r}, which "
            "compares whole models. Choose median or trimmedmean, or train with strategy='ps' and "
            "sync='bsp'."
        )
    if type(rule) not in KINDS.values() or type(_step_of(rule)) not in STEPS:
        raise ConfigError(
            f"combiner: expected one for the changes of all workers at once: {NAMES}. Got "
            f"{rule!r}, which takes them one by one, or is your own. Choose one of those, or train "
            "with strategy='ps'."
        )
    if getattr(rule, "k", None) is not None:
        raise ConfigError(
            f"combiner: expected no k with strategy 'allreduce', where each exchange is a round of "
            f"all workers; got {rule!r}. Leave k out."
        )


def _step_of(rule: Combiner) -> Combiner:
    """Return the rule that moves parameters by the change of a round."""
    return rule.then or PLAIN_MEAN if isinstance(rule, RobustCombiner) else rule


def aggregate_of(rule: Combiner) -> Callable[[Array], Array] | None:
    """Return what makes one change of those of all workers; None for their mean.

    Parameters
    ----------
    rule : Combiner
        See `check_outer`.
    """
    return rule.aggregate if isinstance(rule, RobustCombiner) else None


def to_text(rule: Combiner) -> str:
    """Return a rule as text, for workers."""
    return json.dumps(describe(rule, KINDS))


def from_text(text: str) -> Combiner:
    """Return the rule of which `to_text` made text.

    Raises
    ------
    RemoteProtocolError
        It is something else.
    """
    try:
        made: Combiner = rebuild(json.loads(text), KINDS)
        check_outer(made)
    except (ValueError, CheckpointError, ConfigError) as error:
        raise RemoteProtocolError(f"Expected a combiner in JSON, got {text!r}: {error}") from error
    return made


class OuterOptimizer:
    """A rule, with its state; see `archive.runner.Updater`. It takes the changes of rounds.

    Parameters
    ----------
    layout : Layout
    rule : Combiner
        See `check_outer`. Statistics are averaged instead.
    """

    scales_loss = False

    def __init__(self, layout: Layout, rule: Combiner) -> None:
        self._layout = layout
        self._moved = layout.allocate()
        self._vectors = layout.vectors(self._moved)
        self._tensors = list(layout.tensors(self._moved).values())
        rule = _step_of(rule)
        of_statistics = rule.of_statistics()
        self._rules: list[AveragingCombiner] = []
        for segment, vector in zip(layout.segments, self._vectors, strict=True):
            made = (rule if segment.trained else of_statistics).begin(vector)
            assert isinstance(made, AveragingCombiner)
            self._rules.append(made)

    def update(self, vectors: Sequence[Array], means: Sequence[Array]) -> Sequence[Array]:
        """See `Updater.update`; the means may be overwritten."""
        for rule, moved, before, mean in zip(
            self._rules, self._vectors, vectors, means, strict=True
        ):
            np.copyto(moved, before)
            rule.step(moved, widen_delta(mean))
        return self._tensors

    def set_learning_rate(self, value: float) -> None:
        """See `Updater.set_learning_rate`; the program's is each worker's own."""

    def _kept(self) -> Iterator[tuple[AveragingCombiner, dict[str, Array]]]:
        for rule in self._rules:
            # No sum of a round is begun: a mean is all of it.
            found = {name: kept for name, kept in rule.dump().items() if name != "total"}
            yield rule, {n: kept for n, kept in found.items() if isinstance(kept, np.ndarray)}

    def state(self) -> list[Array]:
        """See `Updater.state`."""
        return [array.copy() for _, kept in self._kept() for array in kept.values()]

    def restore(self, state: Sequence[Array]) -> None:
        """See `Updater.restore`."""
        expected = [
            (array.shape, array.dtype) for _, kept in self._kept() for array in kept.values()
        ]
        if [(array.shape, array.dtype) for array in state] != expected:
            raise ValueError(
                f"expected the state of a combiner with {len(expected)} arrays, got {len(state)} "
                "arrays of other shapes or dtypes"
            )
        arrays = iter(state)
        for rule, kept in self._kept():
            rule.restore({name: next(arrays).copy() for name in kept})
