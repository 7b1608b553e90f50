"""`Namespace`: a program's arguments, however they were given."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError


class Namespace:
    """Arguments as attributes; ``"name" in args`` tells whether there is one.

    Parameters
    ----------
    d : dict, argparse.Namespace, list of str, or Namespace
        Words of a command line become the attribute `argv`, and are what is iterated over.

    Raises
    ------
    ConfigError
        Anything else.
    """

    argv: list[str] | None = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, d: Any) -> None:
        if isinstance(d, list):
            self.argv = d
        elif isinstance(d, dict):
            self.__dict__.update(d)
        elif isinstance(d, argparse.Namespace | Namespace):
            self.__dict__.update(vars(d))
        else:
            raise ConfigError(
                "Expected a program's arguments as a dict, an argparse.Namespace, a list of words "
                f"or a Namespace, got {type(d).__name__}."
            )

    def __iter__(self) -> Iterator[str]:
        return iter(self.argv or list(vars(self)))

    def __repr__(self) -> str:
        if self.argv:
            return repr(self.argv)
        items = (f"{name}={value!r}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({', '.join(items)})"

    def __eq__(self, other: object) -> bool:
        if self.argv:
            return bool(self.argv == (other.argv if isinstance(other, Namespace) else other))
        # As argparse's own: by the attributes, of a dictionary too.
        return vars(self) == (
            other if isinstance(other, dict) else getattr(other, "__dict__", None)
        )

    __hash__ = None  # type: ignore[assignment]
