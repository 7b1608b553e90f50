"""Refuse names of metrics that a program does not have, before it is trained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...common.checks import did_you_mean
from ...errors import ConfigError
from ...readable import LONGEST_NAME, readable
from ...steering.conditions import COUNTS, VALIDATION, Condition, as_conditions
from ..options import ObserverOptions


def names_metrics(options: ObserverOptions) -> bool:
    """Return whether something beside the run is told the name of a metric."""
    return options.keep_best is not None or options.stop_when is not None or bool(options.callbacks)


def require_metrics(
    options: ObserverOptions, trained: Sequence[str], measured: Sequence[str] | None
) -> None:
    """Refuse a name of `keep_best`, `stop_when` or a callback that never comes.

    Parameters
    ----------
    options : ObserverOptions
        Checked, the validation data among them.
    trained : sequence of str
        What a training step gives.
    measured : sequence of str or None
        What an evaluation gives; None if only that tells.

    Raises
    ------
    ConfigError
        The program has no value of the name.
    """
    known = ["loss", *(readable(name, LONGEST_NAME) for name in trained if name != "loss")]
    validated = measured and [VALIDATION + readable(name, LONGEST_NAME) for name in measured]
    if options.keep_best is not None and validated is not None:
        _require("keep_best", options.keep_best.partition(":")[0], validated)
    for condition in as_conditions(() if options.stop_when is None else options.stop_when):
        if not isinstance(condition, Condition):
            continue
        if not condition.name.startswith(VALIDATION):
            _require("stop_when", condition.name, [*known, *COUNTS])
        elif validated is not None:
            _require("stop_when", condition.name, validated)
    _require_monitored(options, known, validated)


def _require_monitored(
    options: ObserverOptions, known: Sequence[str], validated: Sequence[str] | None
) -> None:
    given = options.callbacks
    callbacks = list(given) if isinstance(given, list | tuple) else [given]
    if any(map(_adds_values, callbacks)):
        return
    for callback in callbacks:
        monitor = getattr(callback, "monitor", None)
        if not isinstance(monitor, str) or not getattr(callback, "save_best_only", True):
            continue
        what = f"callbacks: {type(callback).__name__}(monitor={monitor!r})"
        # Keras adds the rate that a callback has set.
        names = [*known, "learning_rate"]
        if not monitor.startswith(VALIDATION):
            _require(what, monitor, names)
        elif options.validation_data is None:
            raise ConfigError(
                f"{what}: expected validation data to follow. Give validation_data=..., too, or "
                f"follow one of {', '.join(known)}."
            )
        elif validated is not None:
            _require(what, monitor, [*names, *validated])


def _adds_values(callback: Any) -> bool:
    """Return whether a callback may add values of its own, which others then follow."""
    kind = type(callback)
    return not kind.__module__.startswith("keras.") or kind.__name__ == "LambdaCallback"


def _require(what: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        raise ConfigError(
            f"{what}: expected one of {', '.join(names)}; got {name!r}.{did_you_mean(name, names)}"
        )
