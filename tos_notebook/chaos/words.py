"""Rules from words, as magics and views have them."""

from __future__ import annotations

from typing import Any

from ..common.checks import did_you_mean
from ..errors import ConfigError
from .rules import Kill, Rule, Slow

WORDS = ("slow", "kill", "off")
"""What `as_rules` knows."""


def as_rules(what: str, amount: float | None = None, **options: Any) -> tuple[Rule, ...]:
    """Return the rules that a magic or a view asks for.

    Parameters
    ----------
    what : {"slow", "kill", "off"}
    amount : float, optional
        How many times slower.
    **options
        Those of `Rule`; None is as if left out.

    Raises
    ------
    ConfigError
        Unknown words, or values out of range.
    """
    if what not in WORDS:
        hint = did_you_mean(str(what), WORDS)
        raise ConfigError(f"chaos: expected one of {', '.join(WORDS)}; got {what!r}.{hint}")
    given = {name: value for name, value in options.items() if value is not None}
    if what == "slow" and amount is None:
        raise ConfigError("chaos slow: expected how many times slower, such as slow 5; got none.")
    if what != "slow" and amount is not None:
        raise ConfigError(f"chaos {what}: expected no amount, got {amount!r}.")
    if what == "off":
        if given:
            raise ConfigError(f"chaos off: expected nothing else, got {', '.join(given)}.")
        return ()
    return (Kill(**given) if amount is None else Slow(amount, **given),)
