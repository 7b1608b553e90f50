"""Stragglers and failures on purpose, for teaching and for tests: slow, pause or kill a worker.

::

    with tos.chaos.on(run, tos.chaos.Slow(5, worker=1)):
        ...

Rules belong to one run: nothing else turns them on, and they end with it at the latest. The server
decides at every exchange what happens in a worker's next milestone and tells the worker just that,
so that chaos which was taken back, or whose server is gone, ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from ..errors import ConfigError, InvalidTransition
from .rules import Kill, Pause, Rule, Slow, describe

__all__ = ["Kill", "Pause", "Rule", "Slow", "describe", "on"]


class Steered(Protocol):
    """A run."""

    def chaos(self, *rules: Rule) -> None:
        """Put rules into force instead of those before.

        Parameters
        ----------
        *rules : Rule
            None to end it.
        """


@contextmanager
def on(run: Steered, *rules: Rule) -> Iterator[None]:
    """Put rules into force for the time of a ``with`` block, whatever happens in it.

    Parameters
    ----------
    run : Run
    *rules : Rule
        At least one.

    Yields
    ------
    None
        The rules are in force until the block ends.

    Raises
    ------
    ConfigError
        No rule was given, or one does not fit the run.
    InvalidTransition
        The run is over.
    """
    if not rules:
        raise ConfigError("chaos.on: expected at least one rule, such as chaos.Slow(5, worker=1).")
    run.chaos(*rules)
    try:
        yield
    finally:
        # A run that has ended has taken them back by itself.
        with suppress(InvalidTransition):
            run.chaos()
