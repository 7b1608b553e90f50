"""Combiners by name, and whatever a user gives as one."""

from __future__ import annotations

import inspect
from typing import Any, get_args

from ..common.checks import did_you_mean
from ..common.rows import Rows
from ..errors import CombinerError, ConfigError
from .adapters import ComputeCombiner, FunctionCombiner
from .adaptive import FedAdam, FedYogi
from .averaging import DelayedNesterov, FedAvg, FedBuff, OuterMomentum
from .base import Combiner, Pushes
from .clip import Clip
from .gap_aware import DCASGD, GapAware
from .preset import Preset
from .robust import Median, MultiKrum, TrimmedMean
from .stateless import ADAG, EASGD, Downpour, DynSGD, FedAsync
from .tensoronspark import DeltaWeightCombiner, MeanWeightCombiner, UpdateMeanWeightCombiner

ORIGINALS = (MeanWeightCombiner, UpdateMeanWeightCombiner, DeltaWeightCombiner)

DiLoCo = Preset(
    "DiLoCo",
    OuterMomentum,
    "Long milestones (hundreds of steps) and workers of about equal speed.",
    "Douillard et al. 2023, arXiv:2311.08105; torchft",
    lr=0.7,
    nesterov=True,
)

SlowMo = Preset(
    "SlowMo",
    OuterMomentum,
    "As DiLoCo, with shorter milestones and a gentler momentum.",
    "Wang et al. 2020, arXiv:1910.00643; fairscale",
    momentum=0.5,
)

BMUF = Preset(
    "BMUF",
    OuterMomentum,
    # The default is 1 - 1/n for the paper's 8 workers.
    "As SlowMo, with a momentum near 1 - 1/n, which makes n workers' mean as fast as one.",
    "Chen, Huo 2016 (ICASSP), doi:10.1109/ICASSP.2016.7472805; fairseq",
    momentum=0.875,
)

GROUPS: dict[str, tuple[type[Combiner] | Preset, ...]] = {
    "Asynchronous": (Downpour, DynSGD, ADAG, EASGD, FedAsync, GapAware, DCASGD),
    "By rounds": (FedAvg, DiLoCo, SlowMo, BMUF, FedAdam, FedYogi),
    "Buffered": (FedBuff, DelayedNesterov),
    "Robust": (Median, TrimmedMean, MultiKrum),
    "TensorOnSpark": ORIGINALS,
}
"""The built-in combiners, by what one looks for."""

COMBINERS = {rule.name: rule for rules in GROUPS.values() for rule in rules}
"""Every built-in combiner, by name."""

SUGGESTED = ("dynsgd", "easgd", "fedavg", "fedadam", "diloco", "median")
"""What is offered for a name that is near none: one for each purpose."""

MADE = COMBINERS | {rule.name: rule for rule in (Clip, OuterMomentum)}
"""Those that a checkpoint can name; presets stand before the class that they share."""


def get(name: str, **params: Any) -> Combiner:
    """Return a built-in combiner.

    Parameters
    ----------
    name : str
        A key of `COMBINERS`; case does not matter.
    **params
        The combiner's own parameters.

    Raises
    ------
    CombinerError
        No combiner has this name; the nearest ones are offered.
    ConfigError
        A parameter is unknown or out of range.
    """
    rule = COMBINERS.get(name.lower())
    if rule is None:
        hint = did_you_mean(name.lower(), COMBINERS)
        some = hint or f" Some are {', '.join(SUGGESTED)}."
        raise CombinerError(
            f"No combiner is named {name!r}.{some} tos.combiners.describe() lists all."
        )
    signature = inspect.signature(rule)
    try:
        signature.bind(**params)
    except TypeError as error:
        raise ConfigError(
            f"Combiner {name!r}: {error}. It is called as {rule.called}{signature}."
        ) from error
    return rule(**params)


def describe() -> Rows:
    """Return a row of plain values for each built-in combiner; they show as a table.

    Returns
    -------
    list of dict
        With keys ``name``, ``when``, ``rule``, ``defaults`` (dict), ``pushes``, ``state``,
        ``source``.
    """
    return Rows(
        {
            "name": name,
            "when": rule.when,
            "rule": rule.rule,
            "defaults": {p.name: p.default for p in inspect.signature(rule).parameters.values()},
            "pushes": rule.pushes,
            "state": rule.state,
            "source": rule.source,
        }
        for name, rule in COMBINERS.items()
    )


def as_combiner(value: Any) -> Combiner:
    """Return a combiner for whatever a user may give as one.

    Parameters
    ----------
    value : str, Combiner, class, object or callable
        A built-in's name; a combiner, or its class or preset if it needs no parameters. Or an
        object or class with ``compute(origin_weight, new_weight, worker_id, name)``; or a function
        ``f(center, update, push)`` that returns a tensor's new value.

    Raises
    ------
    CombinerError
        It is none of these, or cannot be called as it must.
    """
    if isinstance(value, str):
        return get(value)
    if isinstance(value, type):
        value = _construct(value)
    elif isinstance(value, Preset):
        value = value()
    combiner = _adapt(value)
    if combiner.pushes not in get_args(Pushes):
        raise CombinerError(
            f"Combiner {combiner.name}: expected pushes to be 'delta' or 'weights', "
            f"got {combiner.pushes!r}."
        )
    return combiner


def _adapt(value: Any) -> Combiner:
    if isinstance(value, Combiner) and not _overrides_compute(value):
        return value
    if callable(getattr(value, "compute", None)):
        return ComputeCombiner(value)
    if callable(value):
        return FunctionCombiner(value)
    raise CombinerError(
        "Expected a combiner: a name, a Combiner, an object with compute(origin_weight, "
        "new_weight, worker_id, name) or a function f(center, update, push); "
        f"got {value!r} of type {type(value).__name__}."
    )


def _overrides_compute(value: Combiner) -> bool:
    """Whether a user's subclass of an original has a ``compute`` of its own to be asked."""
    return any(
        isinstance(value, original) and type(value).compute is not original.compute
        for original in ORIGINALS
    )


def _construct(kind: type[Any]) -> Any:
    if not (issubclass(kind, Combiner) or callable(getattr(kind, "compute", None))):
        raise CombinerError(
            f"Class {kind.__name__} is not a combiner: expected a subclass of Combiner or a class "
            "with compute(origin_weight, new_weight, worker_id, name)."
        )
    try:
        return kind()
    except TypeError as error:
        raise CombinerError(
            f"Combiner class {kind.__name__} cannot be created without parameters ({error}); "
            f"give an instance, {kind.__name__}(...)."
        ) from error
