"""Errors that name an option by the name that was typed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, cast

from ...common.checks import Function
from ...errors import TosError
from .option import options_of
from .run import RunOptions
from .session import SessionOptions

_OTHER_NAMES = {o.alias: n for n, o in options_of(SessionOptions, RunOptions).items() if o.alias}
"""By an option's other name, its own."""


@contextmanager
def as_typed(given: Collection[str], written: Callable[[str], str] = str) -> Iterator[None]:
    """Let errors of the block begin with an option's other name, if it was given by that.

    Parameters
    ----------
    given : collection of str
        What was typed.
    written : callable
        How a name is written there.
    """
    try:
        yield
    except TosError as error:
        text = str(error.args[0]) if error.args else ""
        for alias, own in _OTHER_NAMES.items():
            head = f"{written(own)}: "
            if written(alias) in given and text.startswith(head):
                error.args = (f"{written(alias)}: {text.removeprefix(head)}", *error.args[1:])
        raise


def names_as_typed(function: Function) -> Function:
    """Let errors of a function name its options by the names that it was given."""

    @wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        with as_typed(given):
            return function(*args, **given)

    return cast(Function, called)
