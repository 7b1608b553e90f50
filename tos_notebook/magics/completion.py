"""Complete what stands behind a magic: options, names, variables of the fitting kind."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from ..blocks.partitioners import LabelPartitioner, Partitioner
from ..data.described import DataDescription, is_frame
from ..program.kinds import all_are
from ..steering.conditions import VALIDATION, Condition, largest_is_best
from ..training.options import OPTIONS
from . import find
from .offers import CHOICES, Offers, brief, offers
from .options import Parser
from .parsers import PARSERS
from .steer import SETTINGS as STEERED
from .steer import all_runs

_LINE = re.compile(r"\s*(?P<escape>%%?)(?P<name>tos_\w+)\s+(?P<rest>.*)", re.DOTALL)

_PIECE = re.compile(r"[^\s,]*$")
"""What stands at the end of a line between spaces and commas."""

Matcher = Callable[[Any], dict[str, Any]]


def matcher(namespace: Mapping[str, Any], defaults: Iterable[str]) -> Matcher:
    """Return a matcher for ``Completer.custom_matchers``.

    Parameters
    ----------
    namespace : mapping of str
        The notebook's.
    defaults : iterable of str
        What ``%tos_config`` sets.
    """

    def tos_matcher(context: Any) -> dict[str, Any]:
        text, token = context.text_until_cursor, context.token
        offered = complete(text, context.cursor_line, namespace, defaults)
        # IPython ends a token at signs, as in ssp:3, and replaces what stands behind the last one.
        piece = _PIECE.search(text)
        typed = piece[0] if piece else token
        before = typed.removesuffix(token)
        found = [
            SimpleCompletion(name.removeprefix(before), type=word or "magic")
            for name, word in offered.items()
            if name.startswith(typed)
        ]
        if not found and is_ours(text, context.cursor_line):
            # Only what offers something keeps IPython's own names away, which mean nothing there.
            found = [SimpleCompletion(token, type="magic")]
        return {"completions": found, "suppress": bool(found)}

    made: Matcher = context_matcher(identifier="tos_notebook.magics")(tos_matcher)
    return made


def is_ours(text: str, row: int) -> bool:
    """Return whether a line is a magic's, at a place where no file is named.

    Parameters
    ----------
    text, row
        As for `complete`.
    """
    parser, rest = _parsed(text, row)
    if parser is None:
        return False
    *before, _ = re.split(r"\s+", rest)
    return not parser.takes_place(before[-1] if before else parser.argument)


def _parsed(text: str, row: int) -> tuple[Parser | None, str]:
    """Return the options of the magic that a line begins with, and the rest of the line."""
    line = _LINE.fullmatch(text)
    if line is None or (line["escape"] == "%%" and row):
        return None, ""
    return PARSERS.get(line["name"]), line["rest"]


def complete(text: str, row: int, namespace: Mapping[str, Any], defaults: Iterable[str]) -> Offers:
    """Return what may stand at the end of a line, and a word about each.

    Parameters
    ----------
    text : str
        The line up to the cursor.
    row : int
        The line's number in its cell, from 0.
    namespace, defaults
        As for `matcher`.
    """
    parser, rest = _parsed(text, row)
    if parser is None:
        return {}
    *before, typed = re.split(r"\s+", rest)
    flag = before[-1] if before and parser.takes_value(before[-1]) else ""
    left = {option: word for option, word in parser.words.items() if option not in before}
    if typed.startswith("-") and (not flag or parser.stands_alone(flag)):
        return left
    flag = flag or parser.argument
    if not flag:
        return {} if typed else left
    if parser.kinds.get(flag) in SETTINGS:
        return _settings(parser.kinds[flag], typed, before, defaults)
    return parser.values(flag) or _of_kind(parser, flag, namespace)


SETTINGS = ("default", "tos_set")
"""Kinds of arguments that are written as name=value."""


def _settings(kind: str, typed: str, before: Iterable[str], defaults: Iterable[str]) -> Offers:
    """Return names of settings that are not given yet; behind the sign, the values of one."""
    name, sign, _ = typed.partition("=")
    if sign:
        words = OPTIONS[name].words if name in OPTIONS else ()
        found = {word: CHOICES.get(word, "") for word in words} or offers(KINDS.get(name, name))
        return {f"{name}={value}": word for value, word in found.items()}
    given = {each.partition("=")[0] for each in before}
    names = defaults if kind == "default" else STEERED
    helps = {name: brief(option.help) for name, option in OPTIONS.items()}
    return {f"{name}=": helps.get(name, "") for name in names if name not in given}


KINDS = {"checkpoint_every": "every", "validation_every": "every"}
"""What is offered for a setting, where it is not called as the setting is."""


def _of_kind(parser: Parser, flag: str, namespace: Mapping[str, Any]) -> Offers:
    kind = parser.kinds.get(flag, "")
    if kind in ("run", "either"):
        clusters = _variables(namespace, find.is_cluster) if kind == "either" else {}
        runs = all_runs()
        # A name with a space would need quotes.
        names = {run.name: run.state for run in runs if run.name and " " not in run.name}
        numbers = {str(run.number): run.state for run in runs}
        return {**_variables(namespace, is_run), **clusters, **names, **numbers}
    if kind == "best":
        return {**offers(kind), **_measured(namespace)}
    variables = _variables(namespace, TESTS[kind]) if kind in TESTS else {}
    return {**offers(kind), **variables}


def _measured(namespace: Mapping[str, Any]) -> Offers:
    """Return what the validation of the notebook's models gives, as they were compiled."""
    found: Offers = {}
    for name, model in list(namespace.items()):
        if name.startswith("_") or not find.is_compiled(model):
            continue
        compiled = getattr(model, "_compile_metrics", None)
        for metric in getattr(compiled, "_user_metrics", None) or ():
            own = metric if isinstance(metric, str) else getattr(metric, "name", None)
            if own is not None:
                best = "" if largest_is_best(own) is not None else ":max"
                found[f"{VALIDATION}{own}{best}"] = f"of {name}"
    return found


def _variables(namespace: Mapping[str, Any], test: find.Test) -> Offers:
    # IPython's own names begin with an underscore.
    found = [(n, v) for n, v in list(namespace.items()) if not n.startswith("_") and test(v)]
    return {name: type(value).__name__ for name, value in found}


def is_data(value: Any) -> bool:
    """Whether a value may be training data: an RDD, a DataFrame, arrays, or an array."""
    if isinstance(value, tuple | list):
        return bool(value) and all(hasattr(part, "__array__") for part in value)
    if hasattr(value, "mapPartitions") or isinstance(value, DataDescription) or is_frame(value):
        return True
    return hasattr(value, "__array__") and not is_tensorflow(value)


def is_tensorflow(value: Any) -> bool:
    """Whether a value is a tensor, an operation or a variable."""
    tf = sys.modules.get("tensorflow")
    return tf is not None and isinstance(value, tf.Tensor | tf.Operation | tf.Variable)


def is_variable(value: Any) -> bool:
    """Whether a value is a TensorFlow variable, or a list of them."""
    tf = sys.modules.get("tensorflow")
    return tf is not None and all_are(value, tf.Variable)


def is_rate(value: Any) -> bool:
    """Whether a value is a TensorFlow variable, or a schedule of Keras."""
    keras = sys.modules.get("keras")
    if keras is not None and isinstance(value, keras.optimizers.schedules.LearningRateSchedule):
        return True
    return is_variable(value)


def is_condition(value: Any) -> bool:
    """Whether a value is a condition by which a run ends, or a list of them."""
    return all_are(value, Condition)


def is_feed(value: Any) -> bool:
    """Whether a value is a placeholder, or a list of them or of their names."""
    if isinstance(value, list) and value:
        return all(is_feed(v) or (isinstance(v, str) and ":" in v) for v in value)
    return is_tensorflow(value) and getattr(getattr(value, "op", None), "type", "") == "Placeholder"


def is_partitioner(value: Any) -> bool:
    """Whether a value says where rows go."""
    return isinstance(value, Partitioner | LabelPartitioner) and not isinstance(value, type)


def is_run(value: Any) -> bool:
    """Whether a value is a run."""
    return any(value is run for run in all_runs())


TESTS: Mapping[str, find.Test] = {
    "data": is_data,
    "callbacks": find.is_callback,
    "model": find.is_compiled,
    "graph": is_tensorflow,
    "feeds": is_feed,
    "params": is_variable,
    "rate": is_rate,
    "combiner": find.is_combiner,
    "strategy": find.is_strategy,
    "partitioner": is_partitioner,
    "condition": is_condition,
    "dict": lambda value: isinstance(value, dict),
    "functions": lambda value: isinstance(value, FunctionType),
    "variable": lambda value: not (callable(value) or isinstance(value, ModuleType)),
}
"""What a variable must be, by kind of option."""
