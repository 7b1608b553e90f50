"""The arguments of `TrainingSession.start` that the options of a cell name."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

from ..errors import ConfigError
from . import find
from .find import Names

_NAMES = re.compile(r"[\w\s,]+")


def given(names: Names, options: Namespace) -> dict[str, Any]:
    """Return data, callbacks and the like, by name of the parameter."""
    texts = {"data": options.data, "validation": options.validation}
    found = {
        name: find.columns(find.data(names, f"--{name}", text), f"--{name}", options)
        for name, text in texts.items()
        if text
    }
    if options.callbacks:
        found["callbacks"] = names.several("--callbacks", options.callbacks)
    if options.tensorboard:
        found["tensorboard"] = options.tensorboard
    return found | watching(names, options)


def watching(names: Names, options: Namespace) -> dict[str, Any]:
    """Return what may be wanted of a resumed run, too, by name of the parameter."""
    found: dict[str, Any] = {}
    if options.validation_every is not None:
        found["validation_every"] = every(options.validation_every)
    if options.validation_on is not None:
        found["validation_on"] = options.validation_on
    if options.stop_when is not None:
        found["stop_when"] = _conditions(names, options.stop_when)
    if options.mlflow:
        found["mlflow"] = options.mlflow
    return found


def every(text: str) -> str | int:
    """Return what `as_trigger` takes: a bare number is one of milestones."""
    return int(text) if text.isdecimal() else text


def _conditions(names: Names, text: str) -> Any:
    return names.several("--stop-when", text) if _NAMES.fullmatch(text) else text


def learning_rate(names: Names, text: str | None) -> tuple[str | None, Any]:
    """Tell the two apart that ``--learning-rate`` may name, or both: ``rate,0.01``.

    Parameters
    ----------
    names : Names
    text : str or None
        The option's value.

    Returns
    -------
    tuple
        The name of a graph's variable, and a number or schedule; None for what is not there.

    Raises
    ------
    ConfigError
        A variable is missing, or two are of a kind.
    """
    found: dict[bool, Any] = {}
    for part in text.split(",") if text else ():
        try:
            value: Any = float(part)
        except ValueError:
            value = names.get("--learning-rate", part.strip())
        is_rate = isinstance(value, float) or callable(value)
        if is_rate in found:
            raise ConfigError(
                "--learning-rate: expected a number, or a variable that holds a schedule; for a "
                f"graph, its variable, or that and a number: rate,0.01. Got {text!r}."
            )
        found[is_rate] = value if is_rate else part.strip()
    return found.get(False), found.get(True)
