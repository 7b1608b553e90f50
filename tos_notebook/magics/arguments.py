"""The arguments of `TrainingSession.start` that the options of a cell name."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from IPython.core.error import UsageError

from ..common.checks import did_you_mean
from ..errors import ConfigError, TosError
from ..training.options import OPTIONS, as_typed
from ..training.options.observers import require_met, require_none
from . import find
from .find import Names

_NAMES = re.compile(r"[\w\s,]+")
_NAMED = re.compile(r"(\w+): ")
"""The parameter with which an error begins."""

_WRITTEN = {"program": "model"}
"""What errors call otherwise."""


_GIVEN = re.compile(r"\b(\w+)=\.\.\.")
"""A parameter with which an error says what to give."""


def _flag(name: str, flags: Collection[str]) -> str:
    """Return how a parameter is written in a cell; empty if it is no option there."""
    flag = f"--{_WRITTEN.get(name, name).replace('_', '-')}"
    return flag if flag in flags else ""


@contextmanager
def as_options(flags: Collection[str], name: str = "") -> Iterator[None]:
    """Let errors of the block name an option as it is written in a cell.

    Parameters
    ----------
    flags : collection of str
        The options that there are.
    name : str
        The parameter whose value is wrong, where the error does not begin with it.
    """
    try:
        yield
    except TosError as error:
        text = str(error.args[0]) if error.args else ""
        found = _NAMED.match(text)
        own = found[1] if found else name
        flag = _flag(own, flags)
        if flag:
            text = text[found.end() :] if found else text
            text = _GIVEN.sub(lambda given: _flag(given[1], flags) or given[0], text)
            error.args = (f"{flag}: {text}", *error.args[1:])
        raise


def as_written(line: str) -> AbstractContextManager[None]:
    """Let errors of the block name an option by the one of its names that a line has."""
    given = {word.partition("=")[0] for word in line.split()}
    return as_typed(given, lambda name: f"--{name.replace('_', '-')}")


def complete(options: Namespace, defaults: Mapping[str, Any]) -> None:
    """Set what the line leaves out to the user's defaults.

    Raises
    ------
    UsageError
        The line says how checkpoints are made, and neither says where.
    """
    if options.validation_split is not None:
        # The line has chosen what the default would stand for.
        options.validation_data = options.validation_data or ""
    given = {name for name, value in vars(options).items() if value is not None}
    for name in defaults.keys() - given:
        setattr(options, name, defaults[name])
    for name in ("checkpoint_every", "max_checkpoints"):
        if name in given and not options.checkpoint_dir:
            raise UsageError(
                f"--{name.replace('_', '-')}: expected --checkpoint-dir with it, since nothing is "
                "saved without; got none. Say where checkpoints go, such as --checkpoint-dir "
                "hdfs:///runs."
            )


def check(options: Namespace, flags: Collection[str]) -> None:
    """Refuse values that are out of range, whatever the notebook's variables hold.

    Raises
    ------
    TosError
        The message begins with the option.
    """
    for name in OPTIONS.keys() - _READ_LATER:
        value = getattr(options, name, None)
        if value is not None and value != "":
            with as_options(flags, name):
                OPTIONS[name].checked(value)
    for name, read in _BY_ITSELF.items():
        if text := getattr(options, name, None):
            with as_options(flags, name):
                OPTIONS[name].checked(read(text))
    if options.validation_split is None and not options.validation_data:
        with as_options(flags):
            require_none(options.keep_best, options.validation_every, options.validation_on)
            require_met(_condition_in(options.stop_when or "") or (), validated=False)


_READ_LATER = frozenset(
    {
        *("strategy", "combiner", "learning_rate", "callbacks", "stop_when", "validation_data"),
        *("partitioner", "sinks", "class_weight", "tensorboard", "mlflow", "histograms"),
        *("checkpoint_every", "validation_every"),
    }
)
"""Options whose text may name a variable, or is read otherwise than by its type."""


def asked(names: Names, options: Namespace, flags: Collection[str]) -> dict[str, Any]:
    """Return the options that a line gives, as what they stand for, by name of the parameter.

    The rate is left out: a part of it may belong to the program.

    Raises
    ------
    ConfigError
        A variable is missing. The message begins with the option.
    """
    texts = {n: getattr(options, n, None) for n in OPTIONS}
    found = {n: v for n, v in texts.items() if v not in (None, "") and n not in _ELSEWHERE}
    for name, read in _READ.items():
        if name in found:
            with as_options(flags, name if name in _UNNAMED else ""):
                found[name] = read(names, found[name])
    for name in ("data", "validation_data"):
        if text := getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            found[name] = find.columns(find.data(names, option, text), option, options)
    return found


_ELSEWHERE = ("learning_rate", "features", "label", "validation_data")
"""Options that are read with others."""

_UNNAMED = ("strategy", "combiner")
"""Options of which errors say what they are, and not which option it is."""


def _conditions(names: Names, text: str) -> Any:
    return _condition_in(text) or names.several("--stop-when", text)


def _condition_in(text: str) -> str | None:
    """Return the condition that a text is; None where it may name variables."""
    return None if _NAMES.fullmatch(text) else text


def _weights(names: Names, text: str) -> Any:
    """Return the weights of classes that a text is, or the variable that it names."""
    if text.isidentifier():
        return names.get("--class-weight", text)
    return _weights_in(text)


def _weights_in(text: str) -> Mapping[int, float] | None:
    """Return the weights of classes that a text is; None where it may name a variable."""
    if text.isidentifier():
        return None
    try:
        pairs = (part.split(":") for part in text.split(","))
        return {int(label): float(weight) for label, weight in pairs}
    except ValueError:
        raise ConfigError(
            "class_weight: expected weights by class, such as 0:1,1:5, or a variable that holds a "
            f"dict of them; got {text!r}."
        ) from None


_READ: Mapping[str, Callable[[Names, str], Any]] = {
    "strategy": lambda names, text: find.strategy(names.namespace, text),
    "combiner": lambda names, text: find.combiner(names.namespace, text),
    "partitioner": lambda names, text: names.get("--partitioner", text),
    "class_weight": _weights,
    "callbacks": lambda names, text: names.several("--callbacks", text),
    "sinks": lambda names, text: names.several("--sinks", text),
    "stop_when": _conditions,
    "checkpoint_every": lambda _, text: find.every(text),
    "validation_every": lambda _, text: find.every(text),
}
"""What makes a value of text, where it is not the text."""


def _number(text: str) -> float | None:
    """Return the number that a text is; None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def _rate_in(text: str) -> float | None:
    """Return the first number of ``rate,0.01``; None where all of it may name variables."""
    numbers = map(_number, text.split(","))
    return next((each for each in numbers if each is not None), None)


_BY_ITSELF: Mapping[str, Callable[[str], Any]] = {
    "checkpoint_every": find.every,
    "validation_every": find.every,
    "class_weight": _weights_in,
    "learning_rate": _rate_in,
    "stop_when": _condition_in,
}
"""What makes a value of text that needs no variable; None where it may name one."""


def _rate(names: Names, text: str) -> Any:
    """Return the number that a text is, or the variable that it names."""
    number = _number(text)
    if number is not None:
        return number
    if text in names.namespace:
        return names.namespace[text]
    raise ConfigError(
        f"--learning-rate: expected a number, got {text!r}. It may also name a variable that "
        f"holds a schedule; none has that name.{did_you_mean(text, names.public)}"
    )


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
        value = _rate(names, part.strip())
        is_rate = isinstance(value, float) or callable(value)
        if is_rate in found:
            raise ConfigError(
                "--learning-rate: expected a number, or a variable that holds a schedule; for a "
                f"graph, its variable, or that and a number: rate,0.01. Got {text!r}."
            )
        found[is_rate] = value if is_rate else part.strip()
    return found.get(False), found.get(True)
