"""Conditions by which a run ends by itself: ``tos.conditions``.

`TrainingSession.start` takes them as ``stop_when=``: one, several of which any will do, or words
such as ``"val_accuracy > 0.98"``. Any callable of a `RunStatus` is one, too: it returns what is
true, or the reason as text, when the run is to end.
"""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..common.checks import at_least_one, at_least_zero, one_of, positive
from ..errors import ConfigError
from .condition_rows import describe

if TYPE_CHECKING:
    from .status import RunStatus

__all__ = [
    "Condition",
    "after",
    "describe",
    "loss_below",
    "metric",
    "no_improvement",
    "samples",
    "validation",
]

VALIDATION = "val_"
"""Before the name of a value of the validation, as in Keras."""

COUNTS: Mapping[str, Callable[[RunStatus], float]] = {
    "samples": lambda status: status.samples,
    "steps": lambda status: status.steps,
    "seconds": lambda status: status.elapsed,
    "minutes": lambda status: status.elapsed / 60,
    "hours": lambda status: status.elapsed / 3600,
}
"""What can be compared besides loss and metrics."""

_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

_TEXT = re.compile(r"\s*([A-Za-z_]\w*)\s*(<=?|>=?)\s*(\S+)\s*")


class Condition(ABC):
    """Says when a run is to end.

    Attributes
    ----------
    name : str
        What it looks at; of a value of the validation, with ``val_`` before it.
    """

    name: str

    @abstractmethod
    def __call__(self, status: RunStatus) -> str | None:
        """Return the reason to end the run now; None to continue.

        Raises
        ------
        ConfigError
            The run has no such metric.
        """


@dataclass(frozen=True)
class Bound(Condition):
    """The run ends when a value is beyond a limit.

    Parameters
    ----------
    name : str
        ``loss`` or a metric, as means over the latest milestones, with ``val_`` before it of the
        latest evaluation of the validation data; or ``samples`` or optimizer ``steps`` of all
        workers together, or ``seconds``, ``minutes`` or ``hours`` since the run's start.
    sign : {"<", "<=", ">", ">="}
    limit : float
    """

    name: str
    sign: str
    limit: float

    def __call__(self, status: RunStatus) -> str | None:
        """See `Condition`."""
        value = _value(self.name, status)
        if value is None or not _SIGNS[self.sign](value, self.limit):
            return None
        return f"{_spoken(self.name)} {_number(value)} {self.sign} {_number(self.limit)}"

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {_number(self.limit)}"


@dataclass(slots=True)
class _Best:
    seen: int = 0
    value: float = math.nan
    since: int = 0


@dataclass(frozen=True)
class NoImprovement(Condition):
    """The run ends when several evaluations in a row were no better than the best before.

    Parameters
    ----------
    name : str
        With ``val_`` before it.
    patience : int
        Evaluations.
    min_delta : float
        The least improvement that counts as one.
    largest : bool
        Whether the largest value is the best.
    """

    name: str
    patience: int
    min_delta: float
    largest: bool
    # By run: one condition may end several, one after the other.
    _runs: dict[str, _Best] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, status: RunStatus) -> str | None:
        """See `Condition`."""
        best = self._runs.setdefault(status.run, _Best())
        value = _value(self.name, status)
        if value is None or status.validations <= best.seen:
            return None
        best.seen = status.validations
        gain = value - best.value if self.largest else best.value - value
        if math.isnan(best.value) or gain > self.min_delta:
            best.value, best.since = value, 0
            return None
        best.since += 1
        if best.since < self.patience:
            return None
        return (
            f"{_spoken(self.name)} no better than {_number(best.value)} in {best.since} "
            f"{'evaluation' if best.since == 1 else 'evaluations'}"
        )

    def __str__(self) -> str:
        return f"no better {self.name} in {self.patience}"


def loss_below(limit: float) -> Condition:
    """Return a condition on the training loss, as mean over the latest milestones.

    Parameters
    ----------
    limit : float
        The run ends when the loss is below.

    Raises
    ------
    ConfigError
        It is not a number.
    """
    return metric("loss", below=limit)


def metric(name: str, *, above: float | None = None, below: float | None = None) -> Condition:
    """Return a condition on the training loss or a metric, as means over the latest milestones.

    Parameters
    ----------
    name : str
        As in `Run.history`.
    above, below : float, optional
        One of the two, beyond which the run ends.

    Raises
    ------
    ConfigError
        Not one limit was given, or none that is a number.
    """
    if (above is None) == (below is None):
        raise ConfigError(
            f"stop_when: expected one limit for {name}, above=... or below=...; got "
            f"above={above!r}, below={below!r}. For both, give two conditions."
        )
    sign, limit = (">", above) if below is None else ("<", below)
    return Bound(str(name), sign, _limit(name, limit))


def validation(name: str, *, above: float | None = None, below: float | None = None) -> Condition:
    """Return a condition on a value of the latest evaluation of the validation data.

    Parameters
    ----------
    name : str
        As in `Run.validation`.
    above, below : float, optional
        One of the two, beyond which the run ends.

    Raises
    ------
    ConfigError
        As for `metric`.
    """
    return metric(VALIDATION + name.removeprefix(VALIDATION), above=above, below=below)


def samples(count: int) -> Condition:
    """Return a condition: so many samples were trained, by all workers together.

    Parameters
    ----------
    count : int
        At least 1.

    Raises
    ------
    ConfigError
        It is out of range.
    """
    return Bound("samples", ">=", at_least_one("samples", count))


def after(*, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Condition:
    """Return a condition: so much time has passed since the run's start.

    Parameters
    ----------
    hours, minutes, seconds : float
        They add up. Pauses count.

    Raises
    ------
    ConfigError
        They do not add up to a time above 0, or one is below 0.
    """
    given = {"hours": hours, "minutes": minutes, "seconds": seconds}
    named = {name: value for name, value in given.items() if value != 0}
    for name, value in named.items():
        positive(name, value)
    if len(named) == 1:
        ((name, value),) = named.items()
        return Bound(name, ">=", float(value))
    return Bound("seconds", ">=", positive("after", 3600 * hours + 60 * minutes + seconds))


def no_improvement(
    name: str = "loss", *, patience: int = 3, min_delta: float = 0.0, mode: str = "auto"
) -> Condition:
    """Return a condition: evaluations of the validation data have stopped improving.

    Parameters
    ----------
    name : str
        As in `Run.validation`.
    patience : int
        So many in a row have not improved on the best one.
    min_delta : float
        The least improvement that counts as one.
    mode : {"auto", "min", "max"}
        Which value is best; by default what the name says: the smallest loss or error, the
        largest accuracy or AUC.

    Raises
    ------
    ConfigError
        A parameter is out of range, or the name does not say which value is best.
    """
    if one_of("mode", mode, ("auto", "min", "max")) == "auto":
        found = largest_is_best(name)
        if found is None:
            raise ConfigError(
                f'stop_when: expected mode="min" or mode="max" for {name!r}, whose name does not '
                "say which value is best."
            )
        largest = found
    else:
        largest = mode == "max"
    min_delta = at_least_zero("min_delta", min_delta)
    full = VALIDATION + name.removeprefix(VALIDATION)
    return NoImprovement(full, at_least_one("patience", patience), min_delta, largest)


def largest_is_best(name: str) -> bool | None:
    """Return whether the largest value of a metric is its best; None if its name does not say."""
    smallest = any(word in name.lower() for word in ("loss", "error"))
    largest = any(word in name.lower() for word in ("acc", "auc"))
    return None if smallest == largest else largest


def parse(text: str) -> tuple[Condition, ...]:
    """Return the conditions that words stand for: ``"val_accuracy > 0.98 or minutes >= 10"``.

    Raises
    ------
    ConfigError
        They stand for nothing.
    """
    found = []
    for part in re.split(r"\bor\b", text):
        match = _TEXT.fullmatch(part)
        try:
            limit = float(match[3]) if match else math.nan
        except ValueError:
            limit = math.nan
        if match is None or math.isnan(limit):
            raise ConfigError(
                f'stop_when: expected a name, one of < <= > >= and a number, such as "loss < 0.1", '
                f'"val_accuracy > 0.98" or "minutes >= 10", with "or" between several; got '
                f"{part.strip()!r}. For more, give a function of run.status."
            )
        found.append(Bound(match[1], match[2], limit))
    return tuple(found)


def as_conditions(value: Any) -> tuple[Callable[[RunStatus], Any], ...]:
    """Return the conditions that a user gives: callables, words, or several of them.

    Raises
    ------
    ConfigError
        Something else is among them.
    """
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, list | tuple):
        return tuple(condition for part in value for condition in as_conditions(part))
    if not callable(value) or isinstance(value, type):
        raise ConfigError(
            "stop_when: expected conditions of tos_notebook.conditions, such as "
            'tos.conditions.validation("accuracy", above=0.98), words such as "loss < 0.1", or a '
            f"function of run.status; got {value!r} of type {type(value).__name__}."
        )
    return (value,)


def on_validation(condition: Callable[[RunStatus], Any]) -> bool:
    """Return whether a condition looks at the validation."""
    return isinstance(condition, Condition) and condition.name.startswith(VALIDATION)


def text_of(condition: Callable[[RunStatus], Any]) -> str:
    """Return a condition in words, or a function's name."""
    if isinstance(condition, Condition):
        return str(condition)
    return str(getattr(condition, "__name__", type(condition).__name__))


def __dir__() -> list[str]:
    return __all__


def _value(name: str, status: RunStatus) -> float | None:
    """Return what a condition looks at; None as long as there is none."""
    if name in COUNTS:
        return COUNTS[name](status)
    if name.startswith(VALIDATION):
        known, begun = status.validation, status.validations > 0
        names = [VALIDATION + other for other in known]
    else:
        known, begun = {"loss": status.loss, **status.metrics}, status.milestones > 0
        names = [*known, *COUNTS]
    value = known.get(name.removeprefix(VALIDATION))
    if value is None and begun:
        raise ConfigError(f"there is no {name!r}; there are {', '.join(names)}.")
    return value if begun else None


def _limit(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number) or isinstance(value, str | bool):
        raise ConfigError(f"stop_when: expected a number for {name}, got {value!r}.")
    return number


def _spoken(name: str) -> str:
    if name.startswith(VALIDATION):
        return f"validation {name.removeprefix(VALIDATION)}"
    return name if name in COUNTS else f"training {name}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1e4 and float(value).is_integer() else f"{value:.4g}"
