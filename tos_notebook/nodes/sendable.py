"""Whether a function can run in nodes: what it takes, and whether it can be sent there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import ConfigError, UnsupportedProgram

MAIN = "main"
"""What a cell calls the function that runs in each node."""


def check_main(name: str, main: Any) -> None:
    """Refuse what is no function of (args, ctx), or does not run when it is called.

    Raises
    ------
    ConfigError
        It begins with the name.
    """
    try:
        inspect.signature(main).bind(None, None)
    except TypeError:
        shown = f"{name}{inspect.signature(main)}" if callable(main) else type(main).__name__
        raise ConfigError(
            f"{name}: expected a function of two arguments, {name}(args, ctx); got {shown}."
        ) from None
    except ValueError:
        # A function that is written in C does not say what it takes.
        pass
    if inspect.iscoroutinefunction(main) or inspect.isgeneratorfunction(main):
        raise ConfigError(
            f"{name}: expected a function that runs when it is called, got one with async or "
            "yield. Leave these out."
        )


def check_sendable(main: Callable[..., object], args: Any, called: str = MAIN) -> None:
    """Refuse a function, or arguments, that cannot be sent to executors.

    Raises
    ------
    UnsupportedProgram
        The message names the variables that cannot.
    """
    if (error := _refused((main, args))) is None:
        return
    if _refused(args) is not None:
        raise UnsupportedProgram(
            f"args of type {type(args).__name__} cannot be sent to the nodes: {_said(error)}"
        ) from None
    names = [name for name, value in _used(main) if _refused(value) is not None]
    uses = f" uses {', '.join(names)}, which" if names else ""
    raise UnsupportedProgram(
        f"{called}{uses} cannot be sent to the nodes. Make it inside of {called}, or use values "
        f"instead of Spark's objects: {_said(error)}"
    ) from None


def _refused(value: Any) -> Exception | None:
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return error
    return None


def _used(main: Callable[..., object]) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function names, with their values."""
    code, space = getattr(main, "__code__", None), getattr(main, "__globals__", {})
    if code is None:
        return
    waiting = [code]
    names: dict[str, None] = {}
    while waiting:
        code = waiting.pop()
        names.update(dict.fromkeys(code.co_names))
        waiting += [each for each in code.co_consts if hasattr(each, "co_names")]
    yield from ((name, space[name]) for name in names if name in space)
    closed = inspect.getclosurevars(main).nonlocals if inspect.isfunction(main) else {}
    yield from closed.items()


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
