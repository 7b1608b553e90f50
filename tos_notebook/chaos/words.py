"""Rules from words, as magics and views have them."""

from __future__ import annotations

from typing import Any

from ..common.checks import did_you_mean
from ..errors import ConfigError
from .rules import Kill, Pause, Rule, Slow

WORDS = ("slow", "pause", "kill", "off")
"""What `as_rules` knows."""

_AMOUNTS = {
    "slow": "how many times slower, such as slow 5",
    "pause": "seconds in each milestone, such as pause 2",
}


def as_rules(what: str, amount: float | None = None, **options: Any) -> tuple[Rule, ...]:
    """Return the rules that a magic or a view asks for.

    Parameters
    ----------
    what : {"slow", "pause", "kill", "off"}
    amount : float, optional
        How many times slower, or how many seconds of a pause.
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
    if what in _AMOUNTS and amount is None:
        raise ConfigError(f"chaos {what}: expected {_AMOUNTS[what]}; got none.")
    if what not in _AMOUNTS and amount is not None:
        raise ConfigError(f"chaos {what}: expected no amount, got {amount!r}.")
    if what == "off":
        if given:
            raise ConfigError(f"chaos off: expected nothing else, got {', '.join(given)}.")
        return ()
    if amount is None:
        return (Kill(**given),)
    return (Pause(amount, **given) if what == "pause" else Slow(amount, **given),)
