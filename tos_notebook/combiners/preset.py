"""Combiners that are another one's class with a name and defaults of their own."""

from __future__ import annotations

import inspect
from typing import Any

from ..common.checks import refuse_unknown
from .base import Combiner


class Preset:
    """A combiner's class, with its own name, defaults and source. It is called as a class.

    Parameters
    ----------
    called : str
        What it is called in code; in lower case it is the combiners' name.
    kind : type of Combiner
    when, source : str
        See `Combiner`.
    **defaults
        Parameters whose defaults differ from the class's.
    """

    def __init__(
        self, called: str, kind: type[Combiner], when: str, source: str, **defaults: Any
    ) -> None:
        self.called, self.name, self.kind = called, called.lower(), kind
        self.rule, self.pushes, self.state = kind.rule, kind.pushes, kind.state
        self.when, self.source = when, source
        given = inspect.signature(kind)
        self.__signature__ = given.replace(
            parameters=[
                parameter.replace(default=defaults.get(name, parameter.default))
                for name, parameter in given.parameters.items()
            ],
            return_annotation=kind.__name__,
        )
        self.__doc__ = f"{when}\n\n{source}. Its parameters are those of `{kind.__name__}`."

    def __call__(self, *args: Any, **params: Any) -> Combiner:
        """Return a combiner of the class."""
        refuse_unknown(self.called, params, self.__signature__.parameters)
        given = self.__signature__.bind(*args, **params)
        given.apply_defaults()
        combiner = self.kind(*given.args, **given.kwargs)
        combiner.name, combiner.called = self.name, self.called
        return combiner

    def made(self, value: object) -> bool:
        """Whether a value is a combiner of this name, whatever its parameters.

        Parameters
        ----------
        value : object
        """
        return isinstance(value, Combiner) and type(value) is self.kind and value.name == self.name

    def __repr__(self) -> str:
        return f"{self.called}{self.__signature__}"
