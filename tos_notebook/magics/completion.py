"""Complete what stands behind a magic: options, names, variables of the fitting kind."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from ..data.described import DataDescription, is_frame
from ..program.kinds import all_are
from ..steering.actions import ACTIONS
from ..steering.conditions import Condition
from ..steering.machine import Command
from ..steering.trigger import TIMES
from . import find
from .options import Parser
from .parsers import PARSERS
from .steer import ALSO_SET, all_runs

_LINE = re.compile(r"\s*(?P<escape>%%?)(?P<name>tos_\w+)\s+(?P<rest>.*)", re.DOTALL)

_TYPED = re.compile(r"\w+:$")
"""What stands before a token that begins behind a colon."""

EXAMPLES: Mapping[str, Iterable[str]] = {
    "every": TIMES,
    **{a.magic: [f"{argument.name}=" for argument in a.arguments] for a in ACTIONS.values()},
    "tos_set": [
        f"{name}="
        for name in (*(a.name for a in ACTIONS[Command.SET].arguments), *ALSO_SET, "strategy")
    ],
}
"""What may stand there whatever the notebook holds, by kind of option."""

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
        words = complete(context.text_until_cursor, context.cursor_line, namespace, defaults)
        # IPython ends a token at a colon, as in ssp:3, and replaces what stands behind it.
        typed = _TYPED.search(context.text_until_cursor.removesuffix(context.token))
        before = typed[0] if typed else ""
        found = [
            SimpleCompletion(word.removeprefix(before), type="magic")
            for word in words
            if word.startswith(before + context.token)
        ]
        return {"completions": found, "suppress": bool(found)}

    made: Matcher = context_matcher(identifier="tos_notebook.magics")(tos_matcher)
    return made


def complete(
    text: str, row: int, namespace: Mapping[str, Any], defaults: Iterable[str]
) -> list[str]:
    """Return what may stand at the end of a line, whatever has been typed of it.

    Parameters
    ----------
    text : str
        The line up to the cursor.
    row : int
        The line's number in its cell, from 0.
    namespace, defaults
        As for `matcher`.
    """
    line = _LINE.fullmatch(text)
    parser = PARSERS.get(line["name"]) if line else None
    if line is None or parser is None or (line["escape"] == "%%" and row):
        return []
    *before, typed = re.split(r"\s+", line["rest"])
    flag = before[-1] if before and parser.takes_value(before[-1]) else ""
    if typed.startswith("-") and (not flag or parser.stands_alone(flag)):
        return [option for option in parser.flags if option not in before]
    flag = flag or parser.argument
    if not flag:
        return [] if typed else parser.flags
    return parser.choices(flag) or _of_kind(parser, flag, namespace, defaults)


def _of_kind(
    parser: Parser, flag: str, namespace: Mapping[str, Any], defaults: Iterable[str]
) -> list[str]:
    kind = parser.kinds.get(flag, "")
    if kind == "default":
        return [f"{name}=" for name in defaults]
    if kind in ("run", "either"):
        clusters = _variables(namespace, find.is_cluster) if kind == "either" else []
        runs = all_runs()
        # A name with a space would need quotes.
        names = [run.name for run in runs if run.name is not None and " " not in run.name]
        known = [*_variables(namespace, is_run), *clusters, *names, *(str(r.number) for r in runs)]
        return list(dict.fromkeys(known))
    from ..widgets.facts import OFFERS

    variables = _variables(namespace, TESTS[kind]) if kind in TESTS else []
    return [*EXAMPLES.get(kind, ()), *OFFERS.get(kind, ()), *variables]


def _variables(namespace: Mapping[str, Any], test: find.Test) -> list[str]:
    # IPython's own names begin with an underscore.
    return [n for n, v in list(namespace.items()) if not n.startswith("_") and test(v)]


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


def is_strategy(value: Any) -> bool:
    """Whether a variable of the notebook is a strategy."""
    from ..strategies.registry import STRATEGIES

    return type(value) in STRATEGIES.values()


def is_combiner(value: Any) -> bool:
    """Whether a value is a combiner of the user's."""
    from ..combiners import Combiner, Preset

    is_class = isinstance(value, type)
    return issubclass(value, Combiner) if is_class else isinstance(value, Combiner | Preset)


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
    "combiner": is_combiner,
    "strategy": is_strategy,
    "condition": is_condition,
    "dict": lambda value: isinstance(value, dict),
    "variable": lambda value: not (callable(value) or isinstance(value, ModuleType)),
}
"""What a variable must be, by kind of option."""
